"""An evaluation's files agree with each other and with a computation beside them."""

import shutil
import sys
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
import torch

from looplab.conf.schema import EvaluationConfig, ShiftName
from looplab.evaluation.bootstrap import bootstrap, numbers
from looplab.evaluation.errors import halted_at
from looplab.evaluation.evaluate_run import evaluated
from looplab.evaluation.results import near_least
from looplab.show.evaluate import evaluate
from looplab.tasks import SHIFTS, Prompts
from looplab.training import Run
from looplab.training.validation import evaluation_prompts
from tests.conftest import batches_of

pytestmark = pytest.mark.usefixtures("undrawn")

SETTINGS = EvaluationConfig(prompts=64, resamples=50, batch_size=24, loops=6)
BASELINES = {"bayes", "least_squares", "averaging", "nearest_neighbours", "lasso"}


def test_errors_are_those_of_the_model_on_the_evaluation_prompts(tiny_run: Run) -> None:
    result = evaluate(tiny_run, SETTINGS)
    prompts = evaluation_prompts(tiny_run.task, 64, 7, SETTINGS.seed)
    with torch.no_grad():
        at_b = tiny_run.model(prompts, loops=4, window=1)[0]
        at_six = tiny_run.model(prompts, loops=6, window=1)[0]
    saved = np.load(tiny_run.path / "evaluation.npz")
    for name, predictions in (("model_at_b", at_b), ("model", at_six)):
        errors = ((predictions - prompts.ys).square() / 2).numpy()
        np.testing.assert_allclose(saved[name], errors, rtol=1e-5)
        found = result["by_examples"][name]["mean"]
        np.testing.assert_allclose(numbers(found), errors.mean(0), rtol=1e-5)
    assert result["by_loop"]["loop"] == list(range(1, 13))  # 3 b
    np.testing.assert_allclose(saved["by_loop"][:, 3], saved["model_at_b"][:, -1], rtol=1e-5)
    assert (result["b"], result["loops"], result["divisor"]) == (4, 6, 2)
    assert set(result["by_examples"]) == {"k", "model", "model_at_b", *BASELINES}
    # The distance to the optimum is paired.
    above = result["above_optimal"]
    assert above["over"] == "bayes"
    difference = bootstrap(saved["model"] - saved["bayes"], 50, SETTINGS.seed)
    np.testing.assert_allclose(numbers(above["model"]["low"]), difference.low)
    np.testing.assert_allclose(numbers(above["model"]["high"]), difference.high)


def test_changes_and_the_loop_near_the_least(tiny_run: Run) -> None:
    result = evaluate(tiny_run, SETTINGS)
    prompts = evaluation_prompts(tiny_run.task, 64, 7, SETTINGS.seed)
    states, predictions = zip(*tiny_run.model.unroll(prompts, 12), strict=True)
    last = [state.stream[:, -2] for state in states]  # the last x; its y comes after it
    by_loop = result["by_loop"]
    for loop in range(2, 13):
        moved = (last[loop] - last[loop - 1]).norm(dim=1) / last[loop].norm(dim=1)
        spoken = (predictions[loop] - predictions[loop - 1])[:, -1].abs() / 2**0.5
        for name, values in (("state_change", moved), ("prediction_change", spoken)):
            found = numbers(by_loop[name]["mean"])[loop - 1]
            np.testing.assert_allclose(found, values.double().mean(), rtol=1e-4)
    assert by_loop["state_change"]["mean"][0] is None
    means = numbers(by_loop["model"]["mean"])
    near = by_loop["near_least"]
    assert near["loop"] == 1 + next(t for t, e in enumerate(means) if e <= 1.05 * min(means))
    assert 1 <= near["low"] <= near["high"] <= 12


def test_loops_that_left_the_numbers_are_not_near_the_least() -> None:
    by_loop = np.array([[4.0, 1.0, 1.01, np.nan]] * 8)
    near = near_least(by_loop, SETTINGS)
    assert (near.loop, near.low, near.high) == (2, 2, 2)


@pytest.mark.parametrize("on", ["state", "prediction"])
def test_halting_reads_each_prediction_where_it_settled(
    tiny_run: Run, on: Literal["state", "prediction"]
) -> None:
    _, before = evaluated(tiny_run, SETTINGS)
    middle = float(np.median(before[f"{on}_change"][:, 2]))  # half have settled by loop 3
    settings = replace(SETTINGS, loops="auto", halt_on=on, tolerance=middle, halt_by=9)
    result, saved = evaluated(tiny_run, settings)
    error, loops = halted_at(saved["by_loop"], saved[f"{on}_change"], middle, 9)
    np.testing.assert_array_equal(saved["model"][:, -1], error)
    np.testing.assert_array_equal(saved["loops_used"][:, -1], loops)
    assert 2 < loops.mean() < 9
    used = numbers(result.by_examples.bands["loops_used"]["mean"])
    np.testing.assert_allclose(used, saved["loops_used"].mean(0), rtol=1e-6)
    # The same rule over a range of tolerances, for the figure.
    halting = result.halting
    assert halting.tolerance[0] == 1e-4
    assert halting.tolerance[-1] == 1.0
    for each, exits in (("state", halting.state), ("prediction", halting.prediction)):
        pairs = [
            halted_at(saved["by_loop"], saved[f"{each}_change"], t, 9) for t in halting.tolerance
        ]
        errors, used = numbers(exits.error["mean"]), numbers(exits.loops["mean"])
        np.testing.assert_allclose(errors, [e.mean(dtype=np.float64) for e, _ in pairs])
        np.testing.assert_allclose(used, [u.mean() for _, u in pairs])


@pytest.mark.parametrize("name", ["repeated_query", "random_orthants"])
def test_shifted_queries_in_one_pass_are_those_of_a_run_per_prefix(
    tiny_run: Run, name: ShiftName
) -> None:
    result = evaluate(tiny_run, replace(SETTINGS, shifts=(name,)))
    saved = np.load(tiny_run.path / "evaluation.npz")
    shifted = SHIFTS[name].sample(tiny_run.task, torch.Generator().manual_seed(2024), 64, 7)
    examples, queries = shifted.prompts, shifted.queries
    for k in range(queries.xs.shape[1]):
        xs = examples.xs[:, : k + 1].clone()
        xs[:, k] = queries.xs[:, k]
        alone = Prompts(xs, examples.ys[:, : k + 1])
        with torch.no_grad():
            prediction = tiny_run.model(alone, loops=6)[0][:, k]
        errors = (prediction - queries.ys[:, k]).square().numpy() / 2
        np.testing.assert_allclose(saved[f"{name}/model"][:, k], errors, rtol=1e-3, atol=1e-5)
    entry = result["shifts"][name]
    assert entry["k"] == list(range(queries.xs.shape[1]))
    means = numbers(entry["model"]["mean"])
    np.testing.assert_allclose(means, saved[f"{name}/model"].mean(0), rtol=1e-5)
    zero = queries.ys.double().square().mean().item() / 2
    assert entry["zero"] == pytest.approx(zero)


def test_an_interrupted_evaluation_goes_on(tiny_run: Run) -> None:
    """What was measured is written once a second."""
    with batches_of(tiny_run.model, most=2, pause=0.6) as seen, pytest.raises(KeyboardInterrupt):
        evaluate(tiny_run, SETTINGS)
    assert not (tiny_run.path / "evaluation.json").exists()
    with batches_of(tiny_run.model) as rest:
        result = evaluate(tiny_run, SETTINGS)
    assert (seen, rest) == ([24, 24], [16])
    for folder in ("cache", "evaluations"):
        shutil.rmtree(tiny_run.path / folder)
    assert evaluate(tiny_run, SETTINGS) == result


@pytest.mark.parametrize("dies_in", ["savez_compressed", "save_panels"])
def test_a_killed_evaluation_leaves_no_result_beside_anothers_errors(
    tiny_run: Run, monkeypatch: pytest.MonkeyPatch, dies_in: str
) -> None:
    first = evaluate(tiny_run, SETTINGS)
    module = sys.modules["looplab.show.evaluate"]

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(np if dies_in == "savez_compressed" else module, dies_in, die)
        with pytest.raises(KeyboardInterrupt):
            evaluate(tiny_run, replace(SETTINGS, seed=1))
    assert evaluate(tiny_run, SETTINGS) == first
    saved = np.load(tiny_run.path / "evaluation.npz")
    means = saved["model"].mean(0, dtype=np.float64)
    np.testing.assert_allclose(numbers(first["by_examples"]["model"]["mean"]), means)
