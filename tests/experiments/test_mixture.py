"""Models of several classes: predictors whose errors on every class are chosen."""

from typing import Any, Literal

import pytest
from torch import Tensor

from looplab.conf.schema import EvaluationConfig, TaskConfig
from looplab.experiments import mixture
from looplab.tasks import Prompts
from looplab.training import Run
from tests.experiments.checks import panels_of, predicting

_SETTINGS = EvaluationConfig(prompts=200, resamples=40)
_OWN: dict[str, dict[str, Any]] = {
    "mixture": {"mixed": ("linear", "decision_tree"), "depth": 2},
    "decision_tree": {"depth": 2},
}


def run(
    error: float,
    task: str = "mixture",
    family: Literal["looped", "standard"] = "looped",
    seed: int = 0,
) -> Run:
    """A model of the outputs themselves, off by a constant."""

    def predict(prompts: Prompts, loop: int) -> Tensor:
        return prompts.ys.double() + error

    return predicting(
        predict, TaskConfig(task, 4, 9, settings=_OWN.get(task, {})), family, seed=seed
    )


def mean(found: Any) -> float:
    assert found.low - 1e-9 <= found.mean <= found.high + 1e-9
    return float(found.mean)


def test_errors_beside_models_of_one_class() -> None:
    runs = [
        *(run(0.2, seed=seed) for seed in (0, 1)),
        run(0.2, "linear"),  # of outputs with variance 4: off by 0.1 of them
        run(0.4, "decision_tree"),
        run(0.1, family="standard"),
    ]
    result = mixture.measure(runs, _SETTINGS)
    looped, standard = result["groups"]
    assert mean(looped["over_alone"]["linear"]) == pytest.approx(4)
    assert mean(looped["over_alone"]["decision_tree"]) == pytest.approx(0.25)
    assert mean(looped["worst"]) == pytest.approx(4)
    assert mean(looped["sums"]) == pytest.approx(1)
    assert standard["over_alone"] == {}
    assert "worst" not in standard
    assert mean(result["looped_over_standard"]) == pytest.approx(4)
    panels = panels_of(mixture, result)
    assert all(len(c.mean) == len(p.x) == 9 for p in panels for c in p.curves)
    titles = {panel.title: len(panel.curves) for panel in panels}
    assert titles == {
        "functions of class linear": 3,
        "functions of class decision tree": 3,
        "sums of functions of all classes": 2,
    }
