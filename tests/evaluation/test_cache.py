"""The cache computes a thing once, goes on after an interruption, and trusts nothing damaged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from reloop.evaluation.cache import Arrays, Cache, digest


class Counting:
    """Squares of the rows asked for; fails from a given row on."""

    def __init__(self, fails_at: int = 1000) -> None:
        self.fails_at, self.asked = fails_at, list[tuple[int, int]]()

    def __call__(self, rows: slice) -> Arrays:
        if rows.stop > self.fails_at:
            raise KeyboardInterrupt
        self.asked.append((rows.start, rows.stop))
        values = np.arange(rows.start, rows.stop, dtype=np.float64)
        return {"square": values**2, "pair": np.stack((values, -values), axis=1)}


def check(arrays: Arrays, total: int) -> None:
    np.testing.assert_array_equal(arrays["square"], np.arange(total) ** 2)
    np.testing.assert_array_equal(arrays["pair"][:, 1], -np.arange(total))


def test_what_was_computed_is_not_computed_again(tmp_path: Path) -> None:
    compute, again = Counting(), Counting()
    check(Cache(tmp_path / "cache").rows("a", {"seed": 1}, 10, 4, compute), 10)
    assert compute.asked == [(0, 4), (4, 8), (8, 10)]
    check(Cache(tmp_path / "cache").rows("a", {"seed": 1}, 10, 4, again), 10)
    assert again.asked == []


def test_other_content_is_something_else(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    cache.rows("a", {"seed": 1}, 4, 4, Counting())
    for name, content in (("a", {"seed": 2}), ("b", {"seed": 1}), ("a", {"seed": 1, "k": 0})):
        compute = Counting()
        check(cache.rows(name, content, 4, 4, compute), 4)
        assert compute.asked == [(0, 4)]


def test_an_interrupted_computation_goes_on_where_it_stopped(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", between_writes=0.0)
    with pytest.raises(KeyboardInterrupt):
        cache.rows("a", {}, 10, 2, Counting(fails_at=7))
    rest = Counting()
    check(cache.rows("a", {}, 10, 2, rest), 10)
    assert rest.asked == [(6, 8), (8, 10)]


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 no archive", "truncated"])
def test_a_damaged_file_is_computed_anew(tmp_path: Path, content: bytes | str) -> None:
    cache = Cache(tmp_path / "cache")
    cache.rows("a", {}, 6, 6, Counting())
    (path,) = (tmp_path / "cache").iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2] if isinstance(content, str) else content)
    compute = Counting()
    check(cache.rows("a", {}, 6, 6, compute), 6)
    assert compute.asked == [(0, 6)]


def test_a_file_that_holds_objects_is_not_unpickled(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    cache.rows("a", {}, 6, 6, Counting())
    (path,) = (tmp_path / "cache").iterdir()
    np.savez(path, square=np.array([{"a": 1}] * 6, dtype=object))
    compute = Counting()
    check(cache.rows("a", {}, 6, 6, compute), 6)
    assert compute.asked == [(0, 6)]


def test_a_digest_sees_values_and_shapes() -> None:
    a = torch.arange(6.0)
    assert digest(a) == digest(a.clone())
    assert digest(a) != digest(a.view(2, 3))
    assert digest(a) != digest(a + 1)
    assert digest(a, a) != digest(a)
