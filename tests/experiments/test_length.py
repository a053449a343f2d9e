"""Longer prompts: predictors whose error depends on the position."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, cast

import pytest
import torch
from torch import Tensor

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config, EvaluationConfig, LoopsConfig, ModelConfig, TaskConfig
from looplab.experiments.length import measure
from looplab.tasks import Prompts
from looplab.training import Run
from looplab.training.assemble import build_task

_SETTINGS = EvaluationConfig(prompts=32, resamples=40)
_POINTS = 5


class Off:
    """In a model's place: the outputs, off by .1 up to the length of training, then by `beyond`."""

    loop = SimpleNamespace(most_loops=None)

    def __init__(self, beyond: float, n_positions: int) -> None:
        self.beyond, self.spec = beyond, SimpleNamespace(n_positions=n_positions)

    def unroll(self, prompts: Prompts, loops: int) -> Iterator[tuple[None, Tensor]]:
        off = torch.full((4 * _POINTS,), self.beyond)
        off[:_POINTS] = 0.1
        for _ in range(loops + 1):
            yield None, prompts.ys.double() + off


def run(
    beyond: float,
    block: Literal["gpt2", "llama"] = "llama",
    family: Literal["looped", "standard"] = "looped",
    n_positions: int = 4 * _POINTS,
    points: int = _POINTS,
) -> Run:
    config = Config(
        task=TaskConfig("linear", 4, points),
        model=ModelConfig(family, block=block, injection="add" if family == "looped" else "none"),
        loops=LoopsConfig(b=2, T=2),
    )
    model = cast(Any, Off(beyond, n_positions))
    return Run(Path("runs/none"), config, build_task(config), model, 1)


def test_growth_with_the_length() -> None:
    runs = [run(0.1), run(0.3, "gpt2"), run(0.2, family="standard")]
    result = measure(runs, _SETTINGS)
    growths = [
        {times: found.mean for times, found in group["growth"].items()}
        for group in result["groups"]
    ]
    assert growths[0] == pytest.approx({"2": 1, "4": 1})
    assert growths[1] == pytest.approx({"2": 9, "4": 9})
    assert list(result["looped_over_standard"]) == ["llama"]
    assert result["looped_over_standard"]["llama"].mean == pytest.approx(0.25)
    (panel,) = result["panels"]
    assert len(panel.x) == 4 * _POINTS
    assert len({curve.kind for curve in panel.curves}) == 3


def test_models_that_cannot_read_them_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"model.n_positions must be at least 20"):
        measure([run(0.1, n_positions=19)], _SETTINGS)
    with pytest.raises(ConfigError, match="must be the same"):
        measure([run(0.1), run(0.1, points=6)], _SETTINGS)
