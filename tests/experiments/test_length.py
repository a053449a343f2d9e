"""Longer prompts: predictors whose error depends on the position."""

from typing import Literal

import pytest
import torch

from looplab.conf.schema import EvaluationConfig, TaskConfig
from looplab.experiments import length
from looplab.tasks import Prompts
from looplab.training import Run
from tests.experiments.checks import panels_of, predicting

_POINTS = 5


def run(
    beyond: float,
    block: Literal["gpt2", "llama"] = "llama",
    family: Literal["looped", "standard"] = "looped",
) -> Run:
    """A model that is off by .1 up to the length of training, then by `beyond`."""

    def predict(prompts: Prompts, loop: int) -> torch.Tensor:
        off = torch.full((4 * _POINTS,), beyond)
        off[:_POINTS] = 0.1
        return prompts.ys.double() + off

    return predicting(predict, TaskConfig("linear", 4, _POINTS), family, block=block)


def test_growth_with_the_length() -> None:
    runs = [run(0.1), run(0.3, "gpt2"), run(0.2, family="standard")]
    result = length.measure(runs, EvaluationConfig(prompts=32, resamples=40))
    growths = [group["growth"]["2"].mean for group in result["groups"]]
    assert growths == pytest.approx([1, 9, 4])
    assert list(result["looped_over_standard"]) == ["llama"]
    assert result["looped_over_standard"]["llama"].mean == pytest.approx(0.25)
    (panel,) = panels_of(length, result)
    assert all(len(curve.mean) == len(panel.x) == 4 * _POINTS for curve in panel.curves)
    assert len({curve.kind for curve in panel.curves}) == 3
