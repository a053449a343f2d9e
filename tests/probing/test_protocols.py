"""The paper's way of probing and its code's: what is seen, what is asked for, how errors count."""

from __future__ import annotations

import pytest
import torch

from reloop.probing.protocols import PAPER, PROTOCOLS, REFERENCE
from reloop.probing.targets import TARGETS, find_target
from reloop.tasks import make_task
from tests.tasks.statistics import generator

POINTS, DIMS = 41, 20
TOKENS = 2 * POINTS


def test_each_goes_by_its_name() -> None:
    assert PROTOCOLS == {"paper": PAPER, "reference": REFERENCE}


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_the_papers_probe_of_i_pairs_sees_their_tokens_and_the_querys(name: str) -> None:
    target = find_target(name)
    lengths = PAPER.lengths(target, POINTS, DIMS)
    mask = PAPER.tokens_seen(target, lengths, TOKENS)
    assert mask.dtype == torch.bool
    assert mask.shape == (len(lengths), TOKENS)
    for row, i in zip(mask.tolist(), lengths, strict=True):
        seen = 2 * i + (name == "residual")
        assert row == [True] * seen + [False] * (TOKENS - seen)


def test_no_probe_of_the_residual_sees_the_answer() -> None:
    """The query after i pairs is token 2i, its output token 2i + 1: odd as all outputs are."""
    target = find_target("residual")
    mask = PAPER.tokens_seen(target, target.lengths(5), 10)
    for row, i in zip(mask, target.lengths(5), strict=True):
        assert row[2 * i]
        assert not row[2 * i + 1 :].any()


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_the_codes_probes_see_the_whole_prompt(name: str) -> None:
    target = find_target(name)
    lengths = REFERENCE.lengths(target, POINTS, DIMS)
    mask = REFERENCE.tokens_seen(target, lengths, TOKENS)
    assert mask.shape == (len(lengths), TOKENS)
    assert mask.all()


@pytest.mark.parametrize("protocol", [PAPER, REFERENCE], ids=["paper", "reference"])
def test_a_length_beyond_the_prompt_is_refused(protocol: object) -> None:
    assert isinstance(protocol, type(PAPER))
    for name, said in (("gradient", 8), ("residual", 9)):
        with pytest.raises(ValueError, match=f"target {name} of 4 pairs needs {said} tokens"):
            protocol.tokens_seen(find_target(name), range(1, 5), said - 1)
        assert protocol.tokens_seen(find_target(name), range(1, 5), said).shape == (4, said)


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_lengths_and_scales(name: str) -> None:
    """The code divides XᵀY by n at every length, and asks for w_OLS up to d pairs."""
    target = find_target(name)
    assert PAPER.lengths(target, POINTS, DIMS) == target.lengths(POINTS)
    last = {"least_squares": 20, "residual": 40}.get(name, 41)
    assert REFERENCE.lengths(target, POINTS, DIMS) == range(1, last + 1)
    few = {"residual": 10}.get(name, 11)
    assert REFERENCE.lengths(target, 11, DIMS) == range(1, few + 1)
    assert PAPER.scale(target, POINTS) == 1
    assert REFERENCE.scale(target, POINTS) == (1 / 41 if name == "gradient" else 1)


def test_errors_are_divided_by_d_once_more_for_the_codes_figure() -> None:
    assert PAPER.error_divisor(DIMS) == 1
    assert REFERENCE.error_divisor(DIMS) == 20


@pytest.mark.parametrize("name", ["gradient", "least_squares", "residual", "weights"])
@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
def test_what_is_computed_is_cut_and_scaled(protocol: str, name: str) -> None:
    task, target, by = make_task("linear", 4), find_target(name), PROTOCOLS[protocol]
    prompts, w = task.draw(generator(), 5, 9)
    lengths = by.lengths(target, 9, 4)
    whole = target.compute(prompts, w, task)[:, : len(lengths)]
    found = by.compute(target, prompts, w, task)
    assert found.shape == (5, len(lengths), target.outputs(task))
    torch.testing.assert_close(found, whole * by.scale(target, 9), rtol=1e-10, atol=1e-12)
