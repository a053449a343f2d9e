"""What the page is made of: commands, training curves, the law's slider, CSV files as panels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from looplab.evaluation.figures import training_panels
from looplab.experiments.report.figure import short
from looplab.experiments.report.result_parts import panels_of
from looplab.experiments.report.run_part import as_typed
from looplab.experiments.scaling_law.fit import fit_law
from looplab.experiments.scaling_law.problem import Law

from .measured import LAW, Page, law_table


@pytest.mark.parametrize(
    ("recorded", "typed"),
    [
        ("/a/b/run.py task=linear seed=1", "python run.py task=linear seed=1"),
        ("run.py -m loops.b=[4,8]", "python run.py -m 'loops.b=[4,8]'"),
        (
            "/a/experiments/iso_depth/__main__.py r=[1,2]",
            "python -m experiments.iso_depth 'r=[1,2]'",
        ),
        ("/a/evaluation/ship.py run=x", "python -m evaluation.ship run=x"),
        ("/a/bin/looplab task=linear", "looplab task=linear"),
        ("/a/looplab/__main__.py task=linear", "python -m looplab task=linear"),
        ("run.py task.name=$(rm) ;", "python run.py 'task.name=$(rm)' ';'"),
        (None, ""),
    ],
)
def test_recorded_commands_can_be_pasted(recorded: object, typed: str) -> None:
    assert as_typed(recorded) == typed


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.012345, "0.0123"), (1.5e-13, "1.50e-13"), (0.0, "0"), (None, "–"), (float("nan"), "–")],
)
def test_numbers_are_short(value: float | None, text: str) -> None:
    assert short(value) == text


def test_the_training_curve_is_a_running_mean_within_what_was_logged() -> None:
    steps = np.arange(1, 1001)
    noise = np.random.default_rng(0).normal(0, 0.1, len(steps))
    losses = np.exp(-steps / 300) + 1 + noise
    records = [
        {
            "step": int(step),
            "loss": float(loss),
            "loops": 4 + int(step > 500),
            "dims": 3,
            "points": 7,
        }
        for step, loss in zip(steps, losses, strict=True)
    ]
    loss, growing = training_panels(records, "looped")
    (curve,) = loss.curves
    assert len(loss.x) <= 120
    assert loss.x[-1] == 1000
    mean = np.array(curve.mean, dtype=float)
    truth = np.exp(-np.array(loss.x) / 300) + 1
    assert np.abs(mean - truth)[20:].max() < 0.15
    assert np.diff(mean).std() < losses.std() / 10
    low, high = (np.array(getattr(curve, part), dtype=float) for part in ("low", "high"))
    assert low.min() == losses.min()
    assert high.max() == losses.max()
    assert [curve.name for curve in growing.curves] == ["loops"]
    assert (growing.curves[0].mean[0], growing.curves[0].mean[-1]) == (4, 5)


def test_a_log_without_losses_has_no_curve() -> None:
    assert training_panels([{"step": 1}, {"step": 2, "loss": None}], "looped") == []


def test_the_slider_over_phi_has_the_best_fit_at_each(index: Path) -> None:
    figure = Page(index).figure("The law")
    fits, start = figure["chart"]["law"]["fits"], figure["chart"]["law"]["start"]
    table = law_table()
    assert fits[start]["phi"] == pytest.approx(fit_law(table).law.phi, abs=1e-4)
    assert fits[start]["phi"] == pytest.approx(LAW.phi, abs=0.1)
    assert [fit["phi"] for fit in fits] == sorted(fit["phi"] for fit in fits)
    assert min(fits, key=lambda fit: fit["huber"])["phi"] == fits[start]["phi"]
    for phi in (0.0, 1.0):  # as found from a grid of starts
        fit = next(fit for fit in fits if fit["phi"] == phi)
        expected = fit_law(table, {"phi": phi})
        assert fit["huber"] == pytest.approx(expected.huber, rel=0.02)
        law = Law(**{name: fit[name] for name in ("E", "A", "B", "alpha", "beta", "phi")})
        np.testing.assert_allclose(law.loss(table), expected.law.loss(table), rtol=5e-3)


def test_the_law_s_csv_is_the_table_that_its_command_reads(index: Path) -> None:
    figure = Page(index).figure("The law")
    head, *rows = figure["csv"]
    assert head == ["N_once", "N_rec", "r", "D", "loss"]
    assert [float(row[-1]) for row in rows] == law_table().loss.tolist()
    assert figure["file"] == "scaling_law-tiny-01234567.csv"


def test_a_picture_s_csv_becomes_panels(tmp_path: Path) -> None:
    path = tmp_path / "toy.csv"
    rows = ["1,1,0.1,2,0.5,7,", "10,10,0.2,3,0.5,8,9", "100,1000,0.3,4,0.5,9,10"]
    head = "loops,norm_none_mean,norm_none_standard_error,norm_sqrt_mean"
    path.write_text(
        "\n".join([f"{head},norm_sqrt_standard_error,change_none_mean,change_sqrt_mean", *rows]),
        encoding="utf-8",
    )
    norm, change = panels_of(path, "toy")
    assert (norm["x"], norm["log_x"], norm["log_y"]) == ([1, 10, 100], True, True)
    none, sqrt = norm["curves"]
    assert (none["label"], none["kind"]) == ("none", "none")
    np.testing.assert_allclose(np.array(none["low"], dtype=float), [0.9, 9.8, 999.7])
    np.testing.assert_allclose(np.array(sqrt["high"], dtype=float), [2.5, 3.5, 4.5])
    assert change["curves"][1]["mean"] == [None, 9, 10]
    assert not change["log_y"]


def test_a_csv_without_numbers_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "names.csv"
    path.write_text("run,error_mean\na,1\n", encoding="utf-8")
    with pytest.raises(ValueError, match="no axis of numbers"):
        panels_of(path, "names")
