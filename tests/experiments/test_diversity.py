"""Memorised or learned: models that are dMMSE or ridge regression themselves have known answers."""

from typing import Any, Literal

import pytest
import torch
from torch import Tensor

from looplab.conf.schema import EvaluationConfig, TaskConfig
from looplab.experiments import diversity
from looplab.tasks import Prompts
from looplab.tasks.least_squares import ridge
from looplab.tasks.posteriors import discrete_posterior
from looplab.training import Run
from tests.experiments.checks import check_panels, panels_of, predicting

_SETTINGS = EvaluationConfig(prompts=150, resamples=40)


def solved(
    kind: str, functions: int, family: Literal["looped", "standard"] = "looped", seed: int = 0
) -> Run:
    """One of the two predictors."""

    def predict(prompts: Prompts, loop: int) -> Tensor:
        xs, ys = prompts.xs.double().numpy(), prompts.ys.double().numpy()
        if kind == "ridge":
            return torch.tensor(ridge(xs, ys, xs, 0.25))
        weights = run.task.functions().double().numpy()
        return torch.tensor(discrete_posterior(xs, ys, xs, weights, 0.5))

    settings = {"noise_std": 0.5}
    task = TaskConfig("noisy_linear", 3, 8, settings=settings, distinct_functions=functions)
    run = predicting(predict, task, family, seed=seed)
    return run


def value(result: dict[str, Any], group: int, part: str, key: str) -> float:
    return float(result["groups"][group][part][key].mean)


def test_dmmse_has_memorised_and_ridge_regression_has_not() -> None:
    result = diversity.measure([solved("dmmse", 4), solved("ridge", 64)], _SETTINGS)
    assert [group["functions"] for group in result["groups"]] == [4, 64]
    assert value(result, 0, "new", "memorises") == pytest.approx(1)
    assert value(result, 1, "new", "memorises") == pytest.approx(0)
    for group in (0, 1):  # each is the better one where it is optimal
        dmmse, by_ridge = (value(result, group, "training", name) for name in ("dmmse", "ridge"))
        assert dmmse < by_ridge
        dmmse, by_ridge = (value(result, group, "new", name) for name in ("dmmse", "ridge"))
        assert dmmse > by_ridge
    assert value(result, 0, "new", "error") == value(result, 0, "new", "dmmse")


def test_looped_over_standard_is_paired_and_by_number_of_functions() -> None:
    runs = [
        *(solved("ridge", 8), solved("ridge", 8, seed=1), solved("ridge", 8, "standard")),
        *(solved("ridge", 32), solved("dmmse", 4, "standard"), solved("ridge", 4)),
    ]
    result = diversity.measure(runs, _SETTINGS)
    assert set(result["looped_over_standard"]) == {"8", "4"}
    same = result["looped_over_standard"]["8"]
    assert [same.mean, same.low, same.high] == pytest.approx([1, 1, 1], rel=1e-12)
    assert same.seeds == 1  # the fewest of both
    assert same.note == "some models have one seed, of which it shows no spread"
    assert result["looped_over_standard"]["4"].high < 1
    panels = panels_of(diversity, result)
    assert check_panels(panels) == ["diversity-memorises", "diversity-error"]
    looped = next(curve for curve in panels[0].curves if curve.label == "looped, new functions")
    standard = next(curve for curve in panels[0].curves if curve.label == "standard, new functions")
    assert panels[0].x == [4, 8, 32]
    assert looped.mean == pytest.approx([0, 0, 0])
    assert standard.mean[2] is None
