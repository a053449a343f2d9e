"""What a table has too few values to tell, held against what is known of sums of powers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from reloop.experiments.scaling_law.certainty import describe_counts, unidentifiable
from reloop.experiments.scaling_law.published import design, minima
from reloop.experiments.scaling_law.table import ScalingTable


def crossed(sizes: int, data: int, loops: int, once: float = 1.0) -> ScalingTable:
    """Each size on each amount of data at each r."""
    axes = np.meshgrid(3.0 ** np.arange(sizes), 7.0 ** np.arange(data), 2.0 ** np.arange(loops))
    size, amount, r = (axis.ravel() for axis in axes)
    return ScalingTable(once * size, 16 * size / r, r, amount, size)


@pytest.mark.parametrize(
    ("sizes", "data", "loops", "held", "expected"),
    [
        (4, 3, 4, (), ""),
        (4, 2, 4, (), "E B beta"),  # two values of D are one difference, for B and beta
        (4, 2, 4, ("E",), ""),  # and the level the second
        (4, 2, 4, ("beta",), ""),
        (4, 1, 4, (), "E B beta"),
        (4, 1, 4, ("E",), "B beta"),
        (4, 1, 4, ("beta",), "E B"),
        (4, 1, 4, ("E", "beta"), ""),
        (4, 3, 1, (), "phi"),  # r = 1: r^phi is 1
        (4, 3, 1, ("phi",), ""),
        (2, 3, 1, ("phi",), "E A alpha"),
        (2, 3, 1, ("phi", "E"), ""),
        (2, 2, 1, ("phi", "E"), "A B alpha beta"),  # one level for two terms
        (1, 3, 2, (), "E A alpha phi"),
        (1, 3, 4, (), ""),  # at equal width r changes N too
    ],
)
def test_what_few_values_cannot_tell(
    sizes: int, data: int, loops: int, held: Sequence[str], expected: str
) -> None:
    assert unidentifiable(crossed(sizes, data, loops), held) == tuple(expected.split())


def test_without_layers_outside_the_loop_one_width_tells_a_product_only() -> None:
    """(r^phi / r)^-alpha is one power of r: alpha (phi - 1)."""
    assert unidentifiable(crossed(1, 3, 4, once=0.0), ()) == ("A", "alpha", "phi")
    assert unidentifiable(crossed(2, 3, 4, once=0.0), ()) == ()


def test_one_r_above_one_is_one_factor() -> None:
    table = crossed(4, 3, 1)
    assert unidentifiable(replace(table, r=table.r * 4), ()) == ("A", "phi")


def test_the_published_designs_tell_all_in_principle() -> None:
    assert unidentifiable(design(), ()) == unidentifiable(minima(), ()) == ()


def test_counts_in_words() -> None:
    assert describe_counts(crossed(2, 3, 2)) == "4 values of N, 3 of D and 2 of r"
