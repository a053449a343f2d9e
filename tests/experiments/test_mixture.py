"""Models of several classes: predictors whose errors on every class are chosen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, cast

import numpy as np
import pytest
import torch
from torch import Tensor

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config, EvaluationConfig, LoopsConfig, ModelConfig, TaskConfig
from looplab.experiments.mixture import measure
from looplab.tasks import Prompts
from looplab.training import Run
from looplab.training.assemble import build_task

_SETTINGS = EvaluationConfig(prompts=200, resamples=40)
_MIXED: dict[str, Any] = {"mixed": ("linear", "decision_tree"), "depth": 2}
_SUMS = "sums of functions of all classes"


class Off:
    """In a model's place: the outputs themselves, off by a constant."""

    loop = SimpleNamespace(most_loops=None)

    def __init__(self, error: float) -> None:
        self.error = error

    def unroll(self, prompts: Prompts, loops: int) -> Iterator[tuple[None, Tensor]]:
        for _ in range(loops + 1):
            yield None, prompts.ys.double() + self.error


def run(
    error: float,
    task: str = "mixture",
    family: Literal["looped", "standard"] = "looped",
    seed: int = 0,
    **settings: Any,
) -> Run:
    own_settings: dict[str, dict[str, Any]] = {"mixture": _MIXED, "decision_tree": {"depth": 2}}
    own = own_settings.get(task, {})
    config = Config(
        task=TaskConfig(task, 4, 9, settings=own | settings),
        model=ModelConfig(family=family, injection="add" if family == "looped" else "none"),
        loops=LoopsConfig(b=2, T=2),
        seed=seed,
    )
    return Run(Path("runs/none"), config, build_task(config), cast(Any, Off(error)), 1)


def mean(found: Any) -> float:
    assert found.low - 1e-9 <= found.mean <= found.high + 1e-9
    return float(found.mean)


def both(result: dict[str, Any]) -> None:
    for panel in result["panels"]:
        assert len(panel.x) == 9
        for curve in panel.curves:
            assert len(curve.mean) == 9


def test_errors_by_class_and_beside_models_of_one_class() -> None:
    runs = [
        *(run(0.2, seed=seed) for seed in (0, 1)),
        run(0.1, family="standard"),
        run(0.2, "linear"),  # of outputs with variance 4: off by 0.1 of them
        run(0.4, "decision_tree"),
    ]
    result = measure(runs, _SETTINGS)
    looped, standard = result["groups"]
    assert mean(looped["errors"]["linear"]) == pytest.approx(0.04)
    assert mean(looped["over_alone"]["linear"]) == pytest.approx(4)
    assert mean(looped["over_alone"]["decision_tree"]) == pytest.approx(0.25)
    assert mean(looped["worst"]) == pytest.approx(4)
    assert mean(looped["sums"]) == pytest.approx(1)
    assert (standard["over_alone"], standard["worst"]) == ({}, None)
    assert mean(result["looped_over_standard"]) == pytest.approx(4)
    both(result)
    names = [panel.title for panel in result["panels"]]
    assert names == ["functions of class linear", "functions of class decision tree", _SUMS]
    assert [len(panel.curves) for panel in result["panels"]] == [3, 3, 2]


def test_a_model_that_knows_no_sums_fails_on_them() -> None:
    class Known(Off):
        def unroll(self, prompts: Prompts, loops: int) -> Iterator[tuple[None, Tensor]]:
            """A tree's outputs repeat; a sum's never do."""
            ys = prompts.ys.double()
            repeats = (ys[:, :, None] == ys[:, None, :]).sum(2).max(1).values > 1
            wrong = torch.where(repeats, 0.1, 0.5)
            for _ in range(loops + 1):
                yield None, ys + wrong[:, None]

    only_trees = run(0.0, mixed=("decision_tree",))
    result = measure([replace(only_trees, model=cast(Any, Known(0.0)))], _SETTINGS)
    assert mean(result["groups"][0]["sums"]) == pytest.approx(1, abs=0.2)  # of one class: itself
    result = measure([replace(run(0.0), model=cast(Any, Known(0.0)))], _SETTINGS)
    by_class = result["groups"][0]["errors"]
    assert mean(by_class["decision_tree"]) < mean(by_class["linear"])
    assert result["looped_over_standard"] is None
    expected = 0.25 / np.mean([mean(by_class["decision_tree"]), mean(by_class["linear"])])
    assert mean(result["groups"][0]["sums"]) == pytest.approx(expected, rel=0.05)


def test_runs_that_do_not_belong_together_are_refused(linear_run: Run) -> None:
    with pytest.raises(ConfigError, match="must be one mixture"):
        measure([linear_run], _SETTINGS)
    with pytest.raises(ConfigError, match="must be one mixture"):
        measure([run(0.1), run(0.1, depth=3)], _SETTINGS)
    with pytest.raises(ConfigError, match="cannot be decision_tree as set"):
        measure([run(0.1), run(0.1, "decision_tree", depth=3)], _SETTINGS)
