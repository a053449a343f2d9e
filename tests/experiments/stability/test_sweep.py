"""The sweep from its settings to its figure: what it trains, what it leaves out, what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from looplab.evaluation.tables import document
from looplab.experiments.stability.settings import StabilitySettings
from looplab.experiments.stability.sweep import (
    LOOPS,
    measure,
    panels,
    report,
    scaling_runs,
    verdict,
)
from looplab.models import Model
from looplab.models.loops.loop import SharedLoop
from looplab.models.loops.recurrent import RecurrentLoop
from looplab.training.assemble import build_model, build_task


def model_of(settings: StabilitySettings, scaling: str, loops: int) -> Model:
    config = scaling_runs(settings, LOOPS[settings.figure], scaling, loops).config
    return build_model(config, build_task(config))


def test_the_sweep_is_of_a_stream_that_is_not_normed() -> None:
    model = model_of(StabilitySettings("sweep"), "sqrt", 4)
    assert isinstance(model.loop, RecurrentLoop)
    assert (model.loop.normed, model.loop.injection) == (False, "none")
    assert model.residual_scale() == 0.5
    assert (model.spec.n_layer, model.spec.block) == (1, "gpt2")


def test_the_contrast_is_the_in_context_loop() -> None:
    model = model_of(StabilitySettings("contrast"), "linear", 4)
    assert type(model.loop) is SharedLoop
    assert model.loop.injection == "add"
    assert model.residual_scale() == 0.25


def test_training_is_the_papers_in_small() -> None:
    training = scaling_runs(StabilitySettings("sweep"), LOOPS["sweep"], "sqrt", 4).config.training
    assert (training.steps, training.batch_size, training.warmup) == (2000, 32, 50)
    assert (training.decay, training.clip, training.weight_decay) == (0.05, 0.0, 0.0)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("sweep")
    settings = StabilitySettings(
        "sweep", loops=(1, 2), rates=(1e-3, 1e-2, 1e30), seeds=2, steps=4, jobs=1,
        folder=str(folder),
    )  # fmt: skip
    return measure(settings)


def test_the_sweep_is_trained_drawn_and_told(measured: dict[str, Any]) -> None:
    result = measured
    assert json.loads(json.dumps(result)) == result
    assert list(result["scalings"]) == ["sqrt", "linear"]
    for by_loops in result["scalings"].values():
        for found in by_loops.values():
            assert found["errors"][2] == [None, None]
            assert found["collapsed"][2] == ["not finite"] * 2
            assert found["collapsed"][:2] == [["", ""]] * 2
    # One loop has no scaling.
    assert result["scalings"]["sqrt"]["1"] == result["scalings"]["linear"]["1"]
    assert result["gain"]["1"]["mean"] == 0
    sqrt, linear = panels(result)
    assert (sqrt.name, linear.name, linear.picture) == ("sweep-sqrt", "sweep-linear", "sweep")
    assert linear.x == [1e-3, 1e-2, 1e30]
    errors = result["scalings"]["linear"]["2"]["errors"][0]
    curves = {curve.name: curve for curve in linear.curves}
    curve, best = curves["r-2"], result["best"]["linear"]["2"]
    ends = [min(errors), sum(errors) / 2, max(errors)]
    assert [curve.low[0], curve.mean[0], curve.high[0]] == pytest.approx(ends)
    assert curve.mean[2] is None
    assert (curves["r-2-best"].x, curves["r-2-best"].mean) == ([best["rate"]], [best["error"]])
    assert "4 of 12 runs collapsed" in linear.title
    text = document(report(result))
    assert "(expected of predicting zero 1, of the best predictor 0.286;" in text
    assert "- (2)" in text
    assert "runs that collapsed: 8" in text


def made(**changes: Any) -> Any:
    """A result with a verdict of each kind."""
    best = {"place": 1, "rate": 2e-3, "error": 0.4, "edge": False}
    cell = {"errors": [[0.5, 0.6], [0.3, 0.5], [None, 0.7]], "collapsed": [["", ""]] * 2}
    cell["collapsed"] = [["", ""], ["", ""], ["ends 0.5 above its best", ""]]
    both = {"2": cell, "16": cell}
    moved = {"mean": -1.5, "half": 0.25, "by_seed": [-1.5, -1.5], "at_least": False}
    return {
        "figure": "sweep", "what": "w", "loops": [2, 16], "rates": [1e-3, 2e-3, 4e-3],
        "seeds": [0, 1], "steps": 100, "zero": 1.0, "bayes": 0.286, "initial": 1.0,
        "scalings": {"sqrt": both, "linear": both},
        "best": {"sqrt": {"2": best, "16": best}, "linear": {"2": best, "16": best}},
        "move": {
            "sqrt": {"verdict": "down", **moved},
            "linear": {"verdict": "no movement", **moved, "mean": 0.1},
        },
        "gain": {
            "2": {"verdict": "no gain", "mean": 0.01, "half": 0.05},
            "16": {"verdict": "gain", "mean": 0.1, "half": 0.05},
        },
    } | changes  # fmt: skip


def test_the_verdict_in_words() -> None:
    assert verdict(made()) == [
        "sqrt: from R = 2 to 16 the best rate moves down: -1.50 ± 0.25 octaves",
        "linear: from R = 2 to 16 the best rate shows no movement: +0.10 ± 0.25 octaves",
        "R = 2: linear over sqrt, each at its best rate: no gain (+0.010 ± 0.050)",
        "R = 16: linear over sqrt, each at its best rate: gain (+0.100 ± 0.050)",
        "runs that collapsed: 4",
        "± is the 95 % interval over seeds; a gain or a loss is one whose interval excludes 0, a "
        "movement one",
        "that also has a mean of at least 0.50 octaves, half the least step between rates",
    ]


def test_a_best_rate_at_an_end_is_marked_and_said() -> None:
    base = made()
    end = {"place": 2, "rate": 4e-3, "error": 0.4, "edge": True}
    move = {
        "sqrt": {**base["move"]["sqrt"], "at_least": True},
        "linear": {"verdict": "unknown", "reason": "why", "mean": 0.5, "half": 0.25},
    }
    best = {**base["best"], "sqrt": {"2": base["best"]["sqrt"]["2"], "16": end}}
    gains = {**base["gain"], "2": {"verdict": "unknown", "reason": "why"}}
    result = made(best=best, move=move, gain=gains)
    assert verdict(result)[:4] == [
        "sqrt: from R = 2 to 16 the best rate moves down: -1.50 ± 0.25 octaves, or more: a best "
        "rate is the outermost that was tried",
        "linear: from R = 2 to 16 the best rate is not known to move or to stay: why (measured: "
        "+0.50 ± 0.25 octaves)",
        "R = 2: linear over sqrt, each at its best rate: unknown: why",
        "R = 16: linear over sqrt, each at its best rate: gain (+0.100 ± 0.050); the outermost "
        "rate tried is best for sqrt",
    ]
    (row,) = [
        line for line in document(report(result)).splitlines() if line.startswith("sqrt, R = 16")
    ]
    assert row.split()[4:] == ["0.550", "0.400", "0.700", "(1)^"]


def test_what_has_hardly_learned_is_said_to_mean_little() -> None:
    stuck = {"place": 1, "rate": 2e-3, "error": 0.95, "edge": False}
    best = made()["best"]
    text = "\n".join(verdict(made(best=best | {"sqrt": {"2": best["sqrt"]["2"], "16": stuck}})))
    assert "still above 0.90 at the best rate, so that it means little: sqrt R = 16\n" in text


def test_the_best_rate_is_marked() -> None:
    lines = document(report(made())).splitlines()
    (row,) = [line for line in lines if line.startswith("sqrt, R = 2")]
    assert row.split() == ["sqrt,", "R", "=", "2", "0.550", "0.400*", "0.700", "(1)"]


@pytest.mark.slow
def test_a_run_that_comes_back_up_is_left_out(tmp_path: Path) -> None:
    """It is finite, and still collapsed."""
    settings = StabilitySettings(
        "contrast", loops=(1, 2), rates=(1.0, 2.0, 4.0), seeds=1, steps=60, jobs=1,
        folder=str(tmp_path),
    )  # fmt: skip
    result = measure(settings)
    assert result["scalings"]["none"]["1"]["collapsed"] == [["ends 0.5 above its best"]] * 3
    assert result["scalings"]["none"]["1"]["errors"] == [[None]] * 3
    assert result["best"]["none"]["1"] is None
    assert result["move"]["none"]["verdict"] == "unknown"
    assert "not known to move or to stay: no rate came through" in document(report(result))
    assert panels(result)[0].curves[0].mean == [None] * 3
