"""What is called determined, from resampled rows and the counts of the table, and whether the truth
lies within what is printed of it; what one change does to phi: a known difference is found again,
and one that cannot be told is not."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pandas import DataFrame

from looplab.conf.mistakes import RunError
from looplab.experiments.scaling_law.__main__ import MINIMA, main, read_csv
from looplab.experiments.scaling_law.law import (
    NAMES,
    Difference,
    Law,
    difference,
    fit_law,
    fitted,
    unidentifiable,
)
from tests.experiments.scaling_law.design import crossed, design, noisy, published_law, sample_table

PUBLISHED = published_law()
TABLE = sample_table(PUBLISHED, 0.003, 0)


def test_two_values_of_d_do_not_determine_e_b_and_beta() -> None:
    """The rest is determined."""
    truth = Law(0.3, 4.0, 5.0, 0.7, 0.3, 0.5)
    table = crossed([100.0, 300.0, 1000.0, 4000.0], [100.0, 6000.0], [1.0, 2.0, 4.0, 8.0])
    known = fitted(noisy(table, truth, 0.003), {}, [], 30, seed=0)
    assert list(known.not_determined) == ["E", "B", "beta"]
    why = "15 values of N, 2 of D and 4 of r cannot tell, however exact the losses"
    assert set(known.not_determined.values()) == {why}
    for name in ("A", "alpha", "phi"):
        assert known.low[name] <= getattr(truth, name) <= known.high[name]
    assert known.high["phi"] - known.low["phi"] < 0.3
    assert known.high["alpha"] - known.low["alpha"] < 0.4


def grid(sizes: int, data: int, loops: int, once: float = 1.0) -> DataFrame:
    """Each size on each amount of data at each r."""
    size, amount, r = (
        (base ** np.arange(n)).tolist() for base, n in ((3.0, sizes), (7.0, data), (2.0, loops))
    )
    return crossed(size, amount, r, once)


@pytest.mark.parametrize(
    ("sizes", "data", "loops", "held", "expected"),
    [
        (4, 2, 4, (), "E B beta"),  # two values of D are one difference, for B and beta
        (4, 2, 4, ("E",), ""),  # and the level the second
        (4, 3, 1, (), "phi"),  # r = 1: r^phi is 1
        (2, 2, 1, ("phi", "E"), "A B alpha beta"),  # one level for two terms
        (1, 3, 2, (), "E A alpha phi"),
        (1, 3, 4, (), ""),  # at equal width r changes N too
    ],
)
def test_what_few_values_cannot_tell(
    sizes: int, data: int, loops: int, held: Sequence[str], expected: str
) -> None:
    assert unidentifiable(grid(sizes, data, loops), held) == tuple(expected.split())


def test_what_a_design_cannot_tell() -> None:
    """Without layers outside the loop one width tells a product only: (r^phi / r)^-alpha is one
    power of r, alpha (phi - 1); one r above one is one factor; the published designs tell all."""
    assert unidentifiable(grid(1, 3, 4, once=0.0), ()) == ("A", "alpha", "phi")
    assert unidentifiable(grid(2, 3, 4, once=0.0), ()) == ()
    assert unidentifiable(grid(4, 3, 1).assign(r=4.0), ()) == ("A", "phi")
    assert unidentifiable(design(), ()) == unidentifiable(read_csv(MINIMA), ()) == ()


def test_an_interval_is_the_percentiles_of_resampled_fits() -> None:
    found = fitted(TABLE, {}, [], 20, seed=5)
    times = np.random.default_rng(5).multinomial(116, np.full(116, 1 / 116), size=20)
    # Rows written out as often as they were drawn, each fit from the whole grid of starts.
    rows = [TABLE.loc[np.repeat(np.arange(116), each)] for each in times]
    phis = [fit_law(each, {}).law.phi for each in rows]
    assert found.low["phi"] == pytest.approx(np.percentile(phis, 5), abs=1e-4)
    assert found.high["phi"] == pytest.approx(np.percentile(phis, 95), abs=1e-4)
    assert (found.resamples, found.clusters) == (20, 116)
    for name in NAMES:
        assert found.low[name] < getattr(found.fit.law, name) < found.high[name]
    assert fitted(TABLE, {}, [], 20, seed=6).low != found.low


def test_resamples_that_tell_nothing_are_left_out_or_refused() -> None:
    two = TABLE[TABLE.r.isin([1, 4])]
    # Both of two clusters are drawn in half of the resamples, here in nine.
    with pytest.raises(RunError, match="only 9 of 20 resamples of the 2 clusters can be fitted"):
        fitted(two, {}, ["r"], 20, seed=0)
    found = fitted(TABLE, {}, ["r"], 200, seed=0)
    assert 190 <= found.resamples < 200  # all of one r: once in 64 resamples
    with pytest.raises(RunError, match="one cluster only"):
        fitted(TABLE.assign(one=1), {}, ["one"], 20, seed=0)


@pytest.mark.slow
def test_intervals_hold_the_truth_in_nine_of_ten_draws() -> None:
    held = 0
    for seed in range(50):
        table = sample_table(PUBLISHED, 0.003, 1000 + seed)
        found = fitted(table, {}, [], 200, seed)
        held += found.low["phi"] <= PUBLISHED.phi <= found.high["phi"]
    # 45 expected, standard deviation 2.1.
    assert 41 <= held <= 49


DESIGN = design()
# The authors' probes: r of 2 and more, the four lower budgets.
PROBES = DESIGN[(DESIGN.r > 1) & (DESIGN.budget < 1e19)]


def found(phi: float, noise: float, every: int = 1) -> Difference:
    changed = noisy(PROBES[::every], replace(PUBLISHED, phi=phi), noise, seed=1)
    return difference(noisy(DESIGN, PUBLISHED, noise), changed, {}, ["r", "budget"], 20, seed=0)


@pytest.mark.parametrize("phi", [0.38, 0.65])
def test_a_known_difference_is_found_again(phi: float) -> None:
    of = found(phi, 0.001)
    assert of.low is not None
    assert of.high is not None
    assert of.low - 0.02 < phi - PUBLISHED.phi < of.high + 0.02
    assert of.settled()
    assert of.runs_needed() is None
    assert of.shared == (DESIGN.r == 1).sum()  # the changed models have no r of 1


def test_what_scatter_hides_is_not_settled() -> None:
    of = found(PUBLISHED.phi + 0.02, 0.01, every=3)
    assert not of.settled()
    needed = of.runs_needed()
    assert needed is None or needed > len(PROBES[::3])


def test_the_command_compares_a_table_with_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "runs.csv"
    noisy(DESIGN, PUBLISHED, 0.003).to_csv(path, index=False)
    words = [f"table={path}", f"changed={path}", "clusters=[r,budget]", "resamples=20"]
    assert main([*words, f"folder={tmp_path}"]) == 0
    line = "phi with the change less phi without it: 0 (0 to 0): not settled"
    assert line in capsys.readouterr().out
