"""What is called determined, from resampled rows and the counts of the table, and whether the truth
lies within what is printed of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from looplab.conf.mistakes import RunError
from looplab.experiments.scaling_law import certainty as certainty_module
from looplab.experiments.scaling_law import report as report_module
from looplab.experiments.scaling_law.__main__ import main
from looplab.experiments.scaling_law.certainty import (
    Certainty,
    certainty,
    describe_counts,
    unidentifiable,
)
from looplab.experiments.scaling_law.law import NAMES, Law, fit_law
from looplab.experiments.scaling_law.published import minima
from looplab.experiments.scaling_law.table import ScalingTable, csv_of
from tests.experiments.scaling_law.design import design, published_law, sample_table

TRUTH = Law(0.3, 4.0, 5.0, 0.7, 0.3, 0.5)
PUBLISHED = published_law()
TABLE = sample_table(PUBLISHED, 0.003, 0)


def table_of(data: Sequence[float], noise: float = 0.003, seed: int = 0) -> ScalingTable:
    """Four sizes and four r on each amount of data, losses of a known law."""
    axes = np.meshgrid([100.0, 300.0, 1000.0, 4000.0], data, [1.0, 2.0, 4.0, 8.0])
    size, amount, r = (axis.ravel() for axis in axes)
    table = ScalingTable(size, 16 * size / r, r, amount, size)
    normal = np.random.default_rng(seed).normal(0, noise, len(table))
    return replace(table, loss=TRUTH.loss(table) * np.exp(normal))


def known_of(table: ScalingTable, held: Mapping[str, float], resamples: int = 30) -> Certainty:
    return certainty(table, fit_law(table, held), np.arange(len(table)), resamples, seed=0)


def test_two_values_of_d_do_not_determine_e_b_and_beta() -> None:
    """The rest is determined."""
    known = known_of(table_of([100.0, 6000.0]), {})
    assert list(known.not_determined) == ["E", "B", "beta"]
    why = "15 values of N, 2 of D and 4 of r cannot tell, however exact the losses"
    assert set(known.not_determined.values()) == {why}
    for name in ("A", "alpha", "phi"):
        assert known.low[name] <= getattr(TRUTH, name) <= known.high[name]
    assert known.high["phi"] - known.low["phi"] < 0.3
    assert known.high["alpha"] - known.low["alpha"] < 0.4


def test_with_e_held_two_values_are_enough() -> None:
    known = known_of(table_of([100.0, 6000.0]), {"E": 0.3})
    assert known.not_determined == {}
    assert known.low["E"] == known.high["E"] == pytest.approx(0.3)
    assert known.low["beta"] < TRUTH.beta < known.high["beta"] < 0.31


def test_an_e_of_next_to_nothing_is_known() -> None:
    table = table_of([100.0, 800.0, 6000.0], 0.0)
    table = replace(table, loss=table.loss - 0.3)
    known = known_of(table, {}, resamples=20)
    assert known.not_determined == {}
    assert 0 <= known.low["E"] <= known.high["E"] < 0.05 * table.loss.min()


@pytest.mark.slow
def test_of_the_published_minima_phi_alone_is_known_well() -> None:
    """As is known of them: E, alpha and beta are badly determined."""
    known = known_of(minima(), {}, resamples=20)
    assert list(known.not_determined) == ["E"]
    assert {"alpha", "beta"} < set(known.factors)
    assert known.factors["alpha"] > 3
    assert known.factors["beta"] > 3
    assert 0.3 < known.low["phi"] < known.high["phi"] < 0.53
    exact = known_of(sample_table(published_law(), 0.003, 0), {}, resamples=20)
    assert exact.not_determined == {}
    assert not {"E", "alpha", "beta"} & set(exact.factors)


def test_the_command_says_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    notes: list[Sequence[str]] = []

    def note(*_: object, remarks: Sequence[str]) -> list[Path]:
        notes.append(remarks)
        return []

    monkeypatch.setattr(report_module, "save_panels", note)
    path = tmp_path / "mine.csv"
    path.write_text(csv_of(table_of([100.0, 6000.0])), encoding="utf-8")
    assert main([f"table={path}", "resamples=20", f"folder={tmp_path}"]) == 0
    out = capsys.readouterr().out
    lines = out.splitlines()
    (free,) = (line.split()[1:] for line in lines if line.startswith("free"))
    assert [cell.startswith("(") for cell in free[:6]] == [True, False, True, False, True, False]
    (low,) = (line.split()[2:] for line in lines if line.startswith("5 %  "))
    assert low[0].startswith("(")
    said = "not determined: E, B, beta: 15 values of N, 2 of D and 4 of r cannot tell, however"
    assert said in out
    (folder,) = tmp_path.glob("scaling_law-mine-*")
    result = json.loads((folder / "scaling_law.json").read_text())
    assert list(result["not_determined"]) == ["E", "B", "beta"]
    assert notes == [["not determined: E, B, beta"]]
    assert result["verdict"].endswith("; not determined by these losses: E, B, beta")


@pytest.mark.slow
@pytest.mark.parametrize("case", ["published", "three", "noisy", "two"])
def test_the_truth_lies_within_what_is_printed_as_determined(case: str) -> None:
    """In nine of ten draws, as many as are called determined: at least 85 % of them all."""
    law = published_law() if case == "published" else TRUTH
    told, held = Counter[str](), Counter[str]()
    for seed in range(20):
        if case == "published":
            table = sample_table(law, 0.003, seed)
        else:
            data = [100.0, 6000.0] if case == "two" else [100.0, 800.0, 6000.0]
            table = table_of(data, 0.02 if case == "noisy" else 0.003, seed)
        known = certainty(table, fit_law(table), np.arange(len(table)), 40, seed)
        for name in set(NAMES) - set(known.not_determined):
            told[name] += 1
            held[name] += known.low[name] <= getattr(law, name) <= known.high[name]
    assert held.total() >= 0.85 * told.total()
    whole = {"published": NAMES, "three": NAMES, "noisy": (), "two": ("A", "alpha", "phi")}[case]
    assert all(told[name] == 20 for name in whole)
    if case == "two":
        assert set(told) == set(whole)


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


def taken(table: ScalingTable, rows: NDArray[Any]) -> ScalingTable:
    parts = (table.N_once, table.N_rec, table.r, table.D, table.loss)
    once, rec, r, data, loss = (each[rows] for each in parts)
    return ScalingTable(once, rec, r, data, loss)


def test_an_interval_is_the_percentiles_of_resampled_fits() -> None:
    fit = fit_law(TABLE)
    found = certainty(TABLE, fit, np.arange(116), 20, seed=5)
    times = np.random.default_rng(5).multinomial(116, np.full(116, 1 / 116), size=20)
    # Rows written out as often as they were drawn, each fit from the whole grid of starts.
    phis = [fit_law(taken(TABLE, np.repeat(np.arange(116), each))).law.phi for each in times]
    assert found.low["phi"] == pytest.approx(np.percentile(phis, 5), abs=1e-4)
    assert found.high["phi"] == pytest.approx(np.percentile(phis, 95), abs=1e-4)
    assert found.used == 20
    for name in ("E", "A", "B", "alpha", "beta", "phi"):
        assert found.low[name] < getattr(fit.law, name) < found.high[name]
    assert certainty(TABLE, fit, np.arange(116), 20, seed=6).low != found.low


def test_rows_of_a_cluster_stay_together() -> None:
    """Two copies of every row, a cluster each pair: as if there were one of each."""
    fit = fit_law(TABLE)
    single = certainty(TABLE, fit, np.arange(116), 20, seed=1)
    doubled = taken(TABLE, np.repeat(np.arange(116), 2))
    double = certainty(doubled, fit, np.repeat(np.arange(116), 2), 20, seed=1)
    assert double.low == pytest.approx(single.low, rel=1e-3)
    assert double.high == pytest.approx(single.high, rel=1e-3)
    apart = certainty(doubled, fit, np.arange(232), 20, seed=1)
    assert apart.high["phi"] - apart.low["phi"] < double.high["phi"] - double.low["phi"]


def test_what_is_held_stays_held() -> None:
    fit = fit_law(TABLE, {"E": 1.5})
    found = certainty(TABLE, fit, np.arange(116), 20, seed=0)
    assert found.low["E"] == found.high["E"] == pytest.approx(1.5)
    free = certainty(TABLE, fit_law(TABLE), np.arange(116), 20, seed=0)
    assert found.high["alpha"] - found.low["alpha"] < free.high["alpha"] - free.low["alpha"]


def test_a_percentile_at_the_search_s_edge_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 21 resamples the 95th percentile is the second highest, of 22 between that and the
    third."""

    def of(*phis: float) -> Certainty:
        samples = [astuple(replace(PUBLISHED, phi=phi)) for phi in phis]
        monkeypatch.setattr(certainty_module, "resampled", lambda *_: samples)
        return certainty(TABLE, fit_law(TABLE), np.arange(116), len(phis), seed=0)

    found = of(*[4.0] * 2, *[0.5] * 19)
    assert found.high["phi"] == 4
    assert (found.low_at_edge, found.high_at_edge) == ((), ("phi",))
    # Between 0.5 and the edge: a number that no resample came to.
    between = of(*[4.0] * 2, *[0.5] * 20)
    assert 0.5 < between.high["phi"] < 4
    assert between.high_at_edge == ("phi",)
    low = of(*[-3.0] * 2, *[0.5] * 19)
    assert (low.low_at_edge, low.high_at_edge) == (("phi",), ())
    # One of 21 is beyond the percentile.
    assert of(4.0, *[0.5] * 20).high_at_edge == ()


def test_resamples_that_tell_nothing_are_left_out_or_refused() -> None:
    few = taken(TABLE, (TABLE.r == 1) | (TABLE.r == 4))
    fit, clusters = fit_law(few), (few.r == 4).astype(np.intp)
    # Both of two clusters are drawn in half of the resamples, here in nine.
    with pytest.raises(RunError, match="only 9 of 20 resamples of the 2 clusters can be fitted"):
        certainty(few, fit, clusters, 20, seed=0)
    four = TABLE.groups(["r"])
    found = certainty(TABLE, fit_law(TABLE), four, 200, seed=0)
    assert 190 <= found.used < 200  # all of one r: once in 64 resamples
    with pytest.raises(RunError, match="one cluster only"):
        certainty(TABLE, fit_law(TABLE), np.zeros(116, dtype=np.intp), 20, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("columns", [(), ("r", "budget")], ids=["runs", "cells"])
def test_intervals_hold_the_truth_in_nine_of_ten_draws(columns: tuple[str, ...]) -> None:
    held = 0
    for seed in range(50):
        table = sample_table(PUBLISHED, 0.003, 1000 + seed)
        found = certainty(table, fit_law(table), table.groups(columns), 200, seed)
        held += found.low["phi"] <= PUBLISHED.phi <= found.high["phi"]
    # 45 expected, standard deviation 2.1.
    assert 41 <= held <= 49
