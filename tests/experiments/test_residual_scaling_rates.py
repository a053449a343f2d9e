"""The verdicts on learning rates whose optimum is known."""

import math
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from looplab.conf.schema import Config, LoopsConfig, ModelConfig, TrainingConfig
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.evaluated_run import EvaluatedRun
from looplab.experiments import residual_scaling_rates
from looplab.experiments.evidence import Evidence
from looplab.experiments.residual_scaling_rates import (
    gain,
    measure,
    movement,
    one_rate_over_best,
    optimum,
)
from tests.experiments.checks import check_panels, give, panels_of, run

RATES = np.array([5e-4, 1e-3, 2e-3, 4e-3, 8e-3])


def bowl(best: float, low: float = 0.3, jitter: float = 0.01) -> Floats:
    """Errors [rates, 3 seeds], least at log2 rate = log2 best."""
    away = np.log2(RATES / best)[:, None] + jitter * np.array([-1.0, 0.0, 1.0])
    return np.exp(0.1 * away**2) * low


_ONE_SEED_BEYOND = bowl(2e-3)
_ONE_SEED_BEYOND[:, 1] = bowl(2e-2)[:, 1]  # its own best rate, not that of the mean


@pytest.mark.parametrize(
    ("errors", "places", "ends"),
    [
        (bowl(2.5e-3), (2,), (False, False)),
        (bowl(1e-4), (0,), (True, False)),
        (_ONE_SEED_BEYOND, (1, 2, 3), (False, True)),
    ],
)
def test_an_optimum_at_the_edge_is_said_to_be_one(
    errors: Floats, places: tuple[int, ...], ends: tuple[bool, bool]
) -> None:
    found = optimum(RATES, errors)
    assert found is not None
    assert found.place in places
    assert (found.at_lowest, found.at_highest) == ends
    if places == (2,):  # the best rate lies between those tried
        np.testing.assert_allclose(found.by_seed[1], np.log2(2.5e-3), atol=1e-6)


@pytest.mark.parametrize(
    ("end", "verdict"), [(1e-3, "down"), (4e-3, "up"), (2.05e-3, "no movement")]
)
def test_movement(end: float, verdict: str) -> None:
    found = movement(RATES, optimum(RATES, bowl(2e-3)), optimum(RATES, bowl(end)))
    assert found["verdict"] == verdict
    np.testing.assert_allclose(found["by_seed"], math.log2(end / 2e-3), atol=0.01)


@pytest.mark.parametrize(
    ("few", "many", "verdict"),
    [
        (1e-4, 1e-4, "unknown"),  # both beyond the same end
        (1e-4, 2e-3, "up"),
        (2e-2, 2e-3, "down"),
        (2e-3, 1e-4, "down"),
        (1e-4, 7e-4, "unknown"),  # less than half a step, or more
    ],
)
def test_what_may_lie_beyond_the_rates_tried(few: float, many: float, verdict: str) -> None:
    found = movement(RATES, optimum(RATES, bowl(few)), optimum(RATES, bowl(many)))
    assert found["verdict"] == verdict
    if verdict == "unknown":
        assert found["reason"] == "a best rate is the outermost that was tried"


def test_gain_is_that_of_the_best_rates() -> None:
    """Best against best, though at any one rate the difference would be larger."""
    noise = 0.001 * np.array([-1.0, 0.0, 1.0])
    before, after = bowl(1e-3, 0.32, 0.0) + noise, bowl(4e-3, 0.30, 0.0)
    found = gain(before, after)
    np.testing.assert_allclose(found["mean"], 0.02, atol=1e-9)
    assert found["half"] < 0.01


def test_the_best_rates_on_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 1/R the best rate is .004 at every R; with 1/√R it is half that at R = 8, where 1/R
    gains .2 bits. A run that collapsed has no place."""
    grid, runs, bits, logs = [0.001, 0.002, 0.004, 0.008], [], {}, {}
    # One loop is the same for all.
    kinds: list[tuple[Any, int]] = [("linear", 1), ("linear", 8), ("sqrt", 8)]
    for (scaling, R), rate, seed in product(kinds, grid, (0, 1)):
        name = f"{scaling}-{R}-{rate}-{seed}"
        best, worse = (0.002, 0.2) if scaling == "sqrt" else (0.004, 0.0)
        value = 2 + worse + 0.01 * seed + 0.1 * math.log2(rate / best) ** 2
        bits[name] = np.full((20, R), value)
        model = ModelConfig("looped", 2, 16, 2, 8, residual_scaling=scaling)
        training = TrainingConfig(steps=300, learning_rate=rate)
        loops = LoopsConfig(b=R, T=1, grad_loops="all")
        runs.append(run(name, seed, model_config=model, training=training, loops=loops))
    falls_and_rises = [1.0] * 100 + [3.0] * 200
    logs["linear-8-0.008-0"] = [{"step": i + 1, "loss": x} for i, x in enumerate(falls_and_rises)]
    give(monkeypatch, residual_scaling_rates, bits, logs)
    result = measure(runs, runs[0].config.evaluation)
    peaks = {s: {R: peak["rate"] for R, peak in of.items()} for s, of in result["best"].items()}
    assert peaks == {"sqrt": {"1": 0.004, "8": 0.002}, "linear": {"1": 0.004, "8": 0.004}}
    assert result["errors"]["linear"]["8"][3][0] is None
    assert result["errors"]["linear"]["8"][2][1] == pytest.approx(2.01)
    assert result["move"]["sqrt"]["verdict"] == "down"
    assert result["move"]["sqrt"]["by_seed"] == pytest.approx([-1, -1])
    assert set(result["gain"]) == {"sqrt"}
    assert result["gain"]["sqrt"]["8"]["mean"] == pytest.approx(0.2)
    assert "initial" not in result
    panels = panels_of(residual_scaling_rates, result)
    assert check_panels(panels) == ["rates-sqrt", "rates-linear", "rates-gain"]
    assert any("1 of 16 runs collapsed" in panel.title for panel in panels)
    # A rate at which all diverge was tried: the next one is not the outermost.
    tried = replace(runs[0].config.training, learning_rate=0.016)
    lost = [replace(runs[0].config, training=tried)]
    assert measure(runs, runs[0].config.evaluation, lost)["rates"][-1] == 0.016


def test_a_rate_at_which_a_seed_learned_nothing_does_not_serve_all() -> None:
    """Every cell is best at .004, with errors of 1, 1.1 and 1.2 times the least around it."""
    members = []
    for layers, rate, seed in product((1, 2, 4), (0.001, 0.002, 0.004, 0.008, 0.016), (0, 1)):
        if (layers, rate, seed) == (4, 0.016, 1):
            continue
        config = Config(
            model=ModelConfig("looped", layers, 16, 2, residual_scaling="factored"),
            training=TrainingConfig(steps=5, learning_rate=rate),
            loops=LoopsConfig(b=4),
            seed=seed,
        )
        error = 1 + 0.1 * abs(math.log2(rate / 0.004))
        members.append(EvaluatedRun("", config, 5, {"model_at_b": np.full((4, 3), error)}))
    estimate = one_rate_over_best(Evidence(members))
    assert estimate.mean == pytest.approx(1)
    assert estimate.seeds == 2
