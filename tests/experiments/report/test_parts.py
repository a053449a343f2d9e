"""What the page is made of: commands, training curves, the law's slider, CSV files as panels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from looplab.evaluation.figures import training_panels
from looplab.experiments.report.figure import short
from looplab.experiments.report.parts import as_typed

from .measured import LAW, Page


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


def test_the_law_has_a_slider_over_phi(index: Path) -> None:
    figure = Page(index).figure("The law with phi")
    phis = sorted({float(name.split("_")[1]) for name in figure["csv"][0] if name.startswith("r-")})
    assert (phis[0], phis[-1]) == (-0.2, 1.2)
    assert any(abs(phi - LAW.phi) < 0.1 for phi in phis)
    assert figure["names"][-3:] == ["r = 1", "r = 2", "r = 4"]
