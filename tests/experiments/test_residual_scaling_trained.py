"""Who collapsed, by the loss curve; the verdict of a sweep whose optimum is known, and a sweep of
trained runs; the streams of trained runs, as far as they were trained to loop."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import LoopsConfig, ModelConfig
from looplab.evaluation import evaluate, load_run
from looplab.evaluation.bootstrap import Floats, numbers
from looplab.evaluation.errors import evaluation_prompts
from looplab.evaluation.evaluate_run import logged
from looplab.experiments.claims import Measured
from looplab.experiments.measuring import Missing
from looplab.experiments.residual_scaling_trained import (
    Optimum,
    collapse,
    final_error,
    gain,
    initial_error,
    least_move,
    logged_curve,
    mean_interval,
    movement,
    optimum,
    plateau_exit,
    sweep,
    trained,
)
from looplab.training import Run, train
from looplab.training.run_folder.metrics import smoothed
from tests.conftest import tiny_config, without_rendering
from tests.experiments.checks import check_panels, narrow, trained_as_members

STEPS = 1000
_SCALINGS: tuple[Literal["sqrt", "linear"], ...] = ("sqrt", "linear")
FALLING = np.linspace(1.0, 0.2, STEPS)


def test_smoothed_is_the_weighted_mean_of_what_there_was() -> None:
    losses = np.random.default_rng(0).normal(size=(30, 2))
    found = smoothed(losses, decay=0.9)
    for step in range(30):
        weights = 0.9 ** np.arange(step, -1, -1)
        expected = (weights[:, None] * losses[: step + 1]).sum(0) / weights.sum()
        np.testing.assert_allclose(found[step], expected, rtol=1e-12)


def test_a_curve_that_falls_did_not_collapse() -> None:
    assert collapse(FALLING, final=0.2, plain=0.2) == ""


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_not_finite(value: float) -> None:
    losses = FALLING.copy()
    losses[500] = value
    assert collapse(losses) == "not finite"
    assert collapse(FALLING, final=value) == "not finite"


def test_back_up() -> None:
    """0.5 above its best at the end, and not only for a moment on the way."""
    back = np.where(np.arange(STEPS) < 600, FALLING, 1.2)
    assert collapse(back) == "ends 0.5 above its best"
    assert collapse(np.where(np.arange(STEPS) < 600, FALLING, 0.9)) == ""
    spike = FALLING + 3.0 * (np.abs(np.arange(STEPS) - 500) < 50)
    assert collapse(spike) == ""


def test_early_noise_is_no_best() -> None:
    losses = np.ones(STEPS)
    losses[:3] = 0.1
    assert collapse(losses) == ""
    assert plateau_exit(losses, 0.7) is None


def test_worse_than_one_loop() -> None:
    assert collapse(FALLING, final=0.31, plain=0.2) == "error above 1.5 x that of one loop"
    assert collapse(FALLING, final=0.29, plain=0.2) == ""
    assert collapse(FALLING, final=0.31) == ""


def test_plateau_is_left_where_the_smoothed_loss_falls() -> None:
    losses = np.where(np.arange(STEPS) < 400, 1.0, 0.2)
    # After m low losses about 1 - 0.8 (1 - 0.98^m) is left of it: 0.7 is passed at m = 24.
    assert plateau_exit(losses, 0.7) == 424
    assert plateau_exit(losses, 0.1) is None
    assert plateau_exit(np.full(STEPS, 0.5), 0.7) == 50


RATES = np.array([5e-4, 1e-3, 2e-3, 4e-3, 8e-3])


def bowl(best: float, low: float = 0.3, jitter: float = 0.01) -> Floats:
    """Errors [rates, 3 seeds], least at log2 rate = log2 best."""
    away = np.log2(RATES / best)[:, None] + jitter * np.array([-1.0, 0.0, 1.0])
    return np.exp(0.1 * away**2) * low


def test_the_best_rate_lies_between_those_tried() -> None:
    found = optimum(RATES, bowl(2.5e-3))
    assert found is not None
    assert (found.place, found.edge) == (2, False)
    np.testing.assert_allclose(found.by_seed[1], np.log2(2.5e-3), atol=1e-6)


def test_a_rate_counts_if_all_its_runs_came_through() -> None:
    errors = bowl(2e-3)
    errors[2, 1] = np.nan
    found = optimum(RATES, errors)
    assert found is not None
    assert found.place in (1, 3)
    assert optimum(RATES, np.full((5, 3), np.nan)) is None


def test_a_rate_that_a_seed_lost_counts_for_no_seed() -> None:
    errors = bowl(2e-3)
    errors[2, 1] = np.nan
    found = optimum(RATES, errors)
    assert found is not None
    # The best of the others that are left, at a rate: beside it there is none to lay a curve by.
    assert set(found.by_seed.tolist()) <= {np.log2(1e-3), np.log2(4e-3)}


def test_an_optimum_at_the_edge_is_said_to_be_one() -> None:
    found = optimum(RATES, bowl(1e-4))
    assert found is not None
    assert (found.place, found.at_lowest, found.at_highest) == (0, True, False)
    one = bowl(2e-3)
    one[:, 1] = bowl(2e-2)[:, 1]  # one seed's own best rate, not that of the mean
    found = optimum(RATES, one)
    assert found is not None
    assert found.place not in (0, 4)
    assert (found.at_lowest, found.at_highest, found.edge) == (False, True, True)


@pytest.mark.parametrize(
    ("end", "verdict"), [(1e-3, "down"), (4e-3, "up"), (2.05e-3, "no movement")]
)
def test_movement(end: float, verdict: str) -> None:
    found = movement(RATES, optimum(RATES, bowl(2e-3)), optimum(RATES, bowl(end)))
    assert found["verdict"] == verdict
    np.testing.assert_allclose(found["mean"], math.log2(end / 2e-3), atol=0.01)
    assert not found["at_least"]


def test_a_movement_within_the_spread_over_seeds_is_none() -> None:
    """An octave down in one seed, one and more up in the others: half an octave up on average."""
    far = np.stack([bowl(best)[:, 1] for best in (1e-3, 4e-3, 5e-3)], axis=1)
    found = movement(RATES, optimum(RATES, bowl(2e-3)), optimum(RATES, far))
    assert found["verdict"] == "no movement"


def test_less_than_half_the_least_step_is_no_movement() -> None:
    """Though every seed agrees on it."""
    near = movement(RATES, optimum(RATES, bowl(2e-3)), optimum(RATES, bowl(2e-3 * 2**0.45)))
    assert near["verdict"] == "no movement"
    assert near["mean"] > near["half"]
    uneven = np.array([5e-4, 1e-3, 1.5e-3, 2e-3, 1.6e-2])
    assert least_move(uneven) == pytest.approx(math.log2(4 / 3) / 2)


@pytest.mark.parametrize(
    ("few", "many", "verdict"),
    [
        (1e-4, 1e-4, "unknown"),  # both beyond the same end
        (2e-2, 2e-2, "unknown"),
        (1e-4, 2e-3, "up"),
        (2e-3, 2e-2, "up"),
        (1e-4, 2e-2, "up"),
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
    else:
        assert found["at_least"]


def test_a_movement_that_may_be_less_is_unknown() -> None:
    """Up by two octaves, but from a rate that may lie above those tried."""
    by_seed = np.log2(1e-3) + np.array([0.0, 0.1, 0.2])
    few, many = Optimum(4, by_seed, False, True), Optimum(3, by_seed + 2, False, False)
    assert movement(RATES, few, many)["verdict"] == "unknown"
    assert movement(RATES, many, few)["verdict"] == "unknown"
    assert movement(RATES, few._replace(at_highest=False), many)["verdict"] == "up"


def test_movement_is_unknown_without_an_optimum() -> None:
    none = np.full((5, 3), np.nan)
    found = movement(RATES, optimum(RATES, none), optimum(RATES, bowl(2e-3)))
    assert found == {"verdict": "unknown", "reason": "no rate came through with every seed"}


def test_gain_is_that_of_the_best_rates() -> None:
    """Best against best, though at any one rate the difference would be larger."""
    noise = 0.001 * np.array([-1.0, 0.0, 1.0])
    before, after = bowl(1e-3, 0.32, 0.0) + noise, bowl(4e-3, 0.30, 0.0)
    found = gain(before, after)
    assert found["verdict"] == "gain"
    np.testing.assert_allclose(found["mean"], 0.02, atol=1e-9)
    assert gain(after, before)["verdict"] == "loss"


def test_no_gain_within_the_spread() -> None:
    before = bowl(2e-3) + np.array([-0.05, 0.0, 0.06])
    assert gain(before, bowl(2e-3))["verdict"] == "no gain"
    assert gain(np.full((5, 3), np.nan), bowl(2e-3))["verdict"] == "unknown"


def test_one_seed_shows_nothing() -> None:
    unknown = {"verdict": "unknown", "reason": "one seed has no spread"}
    assert gain(bowl(2e-3)[:, :1], bowl(2e-3, 0.1)[:, :1]) == unknown
    few, many = (optimum(RATES, bowl(best)[:, :1]) for best in (1e-3, 4e-3))
    assert movement(RATES, few, many) == unknown


def test_the_interval_is_students() -> None:
    mean, half = mean_interval(np.array([1.0, 2.0, 3.0]))
    assert mean == 2.0
    np.testing.assert_allclose(half, 4.302653 / math.sqrt(3), rtol=1e-6)


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Measured]]:
    """Runs of a sweep; at the highest rate they diverge."""
    folder = tmp_path_factory.mktemp("sweep")
    configs = []
    for scaling, R, rate, seed in product(_SCALINGS, (1, 2), (1e-3, 1e-2, 1e30), (0, 1)):
        model = ModelConfig(injection="none", norm="at_readout", residual_scaling=scaling)
        config = narrow(folder, model, R, steps=4)
        training = replace(config.training, learning_rate=rate)
        configs.append(replace(config, training=training, seed=seed))
    with pytest.MonkeyPatch.context() as patch:
        without_rendering(patch)
        yield trained_as_members(configs)


def test_a_sweep_is_of_its_runs_and_drawn(swept: list[Measured]) -> None:
    result = sweep(swept)
    without_panels = {key: value for key, value in result.items() if key != "panels"}
    assert json.loads(json.dumps(without_panels)) == without_panels
    assert (result["loops"], result["rates"], result["seeds"]) == (
        [1, 2],
        [1e-3, 1e-2, 1e30],
        [0, 1],
    )
    assert list(result["scalings"]) == ["sqrt", "linear"]
    for by_loops in result["scalings"].values():
        for found in by_loops.values():
            assert found["errors"][2] == [None, None]
            assert found["collapsed"] == [["", ""], ["", ""], ["not finite"] * 2]
    # One loop has no scaling.
    assert result["scalings"]["sqrt"]["1"] == result["scalings"]["linear"]["1"]
    assert result["gain"]["1"]["mean"] == 0
    names = ["sweep-sqrt", "sweep-linear", "sweep-gain"]
    assert check_panels(result["panels"]) == names
    sqrt, linear, gains = result["panels"]
    assert (sqrt.picture, linear.picture, linear.x) == ("sweep", "sweep", [1e-3, 1e-2, 1e30])
    errors = result["scalings"]["linear"]["2"]["errors"][0]
    curves = {curve.name: curve for curve in linear.curves}
    curve, best = curves["r-2"], result["best"]["linear"]["2"]
    ends = [min(errors), sum(errors) / 2, max(errors)]
    assert [curve.low[0], curve.mean[0], curve.high[0]] == pytest.approx(ends)
    assert curve.mean[2] is None
    assert (curves["r-2-best"].x, curves["r-2-best"].mean) == ([best["rate"]], [best["error"]])
    assert "4 of 12 runs collapsed" in linear.title
    assert gains.curves[0].mean == [of["mean"] for of in result["gain"].values()]


def test_errors_are_those_of_the_evaluation(swept: list[Measured]) -> None:
    """The mean over all numbers of examples, and that of the same model before training."""
    run = swept[2]
    evaluated = evaluate(load_run(run.path), run.config.evaluation)["by_examples"]["model_at_b"]
    assert final_error(run) == pytest.approx(np.mean(numbers(evaluated["mean"])), rel=1e-6)
    before = replace(run.config, training=replace(run.config.training, steps=0))
    untrained = evaluate(train(before), run.config.evaluation)["by_examples"]["model_at_b"]
    found = initial_error(run.config)
    assert found == pytest.approx(np.mean(numbers(untrained["mean"])), rel=1e-5)
    assert logged_curve(run, "loss").tolist() == [of["loss"] for of in logged(load_run(run.path))]
    assert np.isnan(logged_curve(swept[4], "loss")[-1])


def test_a_sweep_waits_for_all_its_runs(swept: list[Measured]) -> None:
    config = replace(swept[0].config, seed=7)
    with pytest.raises(Missing, match="a loop, seed 7: not trained yet"):
        sweep([*swept, Measured("a loop", config, 0, {})])
    with pytest.raises(ConfigError, match="runs must be all combinations of at least two"):
        sweep(swept[1:])
    with pytest.raises(Missing, match=r"logged less than training\.log_every=1"):
        logged_curve(swept[0], "another_metric")


@pytest.fixture
def unnormed_run(tmp_path: Path) -> Run:
    """A finished run whose stream no norm touches."""
    config = tiny_config(tmp_path)
    model = replace(config.model, injection="none", norm="at_readout", residual_scaling="linear")
    return train(replace(config, model=model, loops=LoopsConfig(3, 1, "all")))


def test_norms_and_cosines_are_the_unrolled_states(linear_run: Run, unnormed_run: Run) -> None:
    runs = [load_run(run.path) for run in (linear_run, unnormed_run)]
    result = trained(runs)
    names = ["trained-norms", "trained-cosines-1", "trained-cosines-2"]
    assert check_panels(result["panels"]) == [*names, "trained-cosines-by-distance"]
    panels = {panel.name: panel for panel in result["panels"]}
    for at, (run, found) in enumerate(zip(runs, result["runs"], strict=True), start=1):
        b = run.config.loops.b
        prompts = evaluation_prompts(run.task, 64, run.config.task.points, 0)
        states = [s for s, _ in run.model.unroll(prompts, b)]
        raw = [state.raw[:, :-1].norm(dim=-1).mean().item() for state in states]
        np.testing.assert_allclose(found["norm"]["mean"], raw, rtol=1e-4)
        # From loop 1 on the streams say the increments; before it stands what the loop began with.
        moves = torch.stack([s.stream[:, :-1] for s, _ in run.model.unroll(prompts, b)][1:])
        units = torch.nn.functional.normalize(moves.diff(dim=0), dim=-1)
        cosine = torch.einsum("iptd,jptd->ijpt", units, units).mean((2, 3)).numpy()
        np.testing.assert_allclose(np.array(found["cosine"])[1:, 1:], cosine, atol=1e-4)
        matrix = panels[f"trained-cosines-{at}"].matrix
        np.testing.assert_array_equal(np.array(matrix), found["cosine"])
        norm = panels["trained-norms"].curves[at - 1]
        assert (norm.label, norm.mean[: b + 1]) == (f"{at}: {found['what']}", found["norm"]["mean"])
    assert result["runs"][1]["what"] == "looped, b = 3, linear"


def test_loops_that_add_nothing(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    """As of fully looped blocks before the first step."""
    config = tiny_config(tmp_path)
    model = replace(config.model, injection="none", block="flt", connectivity="FLT")
    still = replace(config, model=model, training=replace(config.training, steps=0))
    run = train(still)
    recwarn.clear()
    result = trained([run])
    assert not [each for each in recwarn if issubclass(each.category, RuntimeWarning)]
    (found,) = result["runs"]
    assert "NaN" not in json.dumps(found)
    assert found["collapsed"] is None  # no loss is logged
    assert found["apart"] is None
    # The first loop norms what it reads; the others find it normed.
    assert found["cosine"][0][0] == pytest.approx(1)
    assert [value for row in found["cosine"] for value in row][1:] == [None] * 15
