"""What holds of every measurement's panels, and runs of models that predict as is chosen."""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Literal, cast

from torch import Tensor

from looplab.conf.schema import Config, FigureSettings, LoopsConfig, ModelConfig, TaskConfig
from looplab.experiments.measuring import _plain
from looplab.show.drawing import draw, styled
from looplab.show.panel import Panel
from looplab.tasks import Prompts
from looplab.training import Run
from looplab.training.assemble import build_task


def panels_of(module: ModuleType, found: Mapping[str, Any]) -> list[Panel]:
    """The panels that a question's module makes of what it measured, as that is stored."""
    stored = json.loads(json.dumps(_plain(found)))
    return cast(list[Panel], module.panels(stored))


def check_panels(panels: Sequence[Panel]) -> list[str]:
    """Fail where a panel cannot be drawn or written; the names of the panels."""
    names = [panel.name for panel in panels]
    assert len(set(names)) == len(names)
    for panel in panels:
        assert re.fullmatch(r"[a-z0-9_-]+", panel.name.lower())
        assert panel.curves or panel.matrix, panel.name
        assert len({curve.name for curve in panel.curves}) == len(panel.curves)
        for curve in panel.curves:
            for values in (curve.mean, curve.low, curve.high):
                assert len(values) in (0, len(curve.x or panel.x)), panel.name
                assert all(value is None or math.isfinite(value) for value in values)
            assert any(value is not None for value in curve.mean), curve.label
            for low, mean, high in zip(curve.low, curve.mean, curve.high, strict=False):
                if low is not None and high is not None:
                    assert mean is not None
                    assert low <= mean <= high
        assert len(panel.x_names or panel.x) == len(panel.x)
    with styled():
        for panel in panels:
            draw([panel], FigureSettings())
    return names


class Predicts:
    """In a model's place: predictions by the number of loops."""

    loop = SimpleNamespace(most_loops=None)

    def __init__(self, predict: Callable[[Prompts, int], Tensor]) -> None:
        self.predict = predict

    def unroll(self, prompts: Prompts, loops: int) -> Iterator[tuple[None, Tensor]]:
        for loop in range(loops + 1):
            yield None, self.predict(prompts, loop)


def predicting(
    predict: Callable[[Prompts, int], Tensor],
    task: TaskConfig,
    family: Literal["looped", "standard"] = "looped",
    b: int = 2,
    seed: int = 0,
    block: Literal["gpt2", "llama"] = "gpt2",
) -> Run:
    """A finished run of a model, of b loops or layers, that predicts so."""
    looped = family == "looped"
    injection: Literal["add", "none"] = "add" if looped else "none"
    model = ModelConfig(family, 1 if looped else b, injection=injection, block=block)
    config = Config(task=task, model=model, loops=LoopsConfig(b=b, T=min(b, 2)), seed=seed)
    predicts = cast(Any, Predicts(predict))
    return Run(Path("runs/none"), config, build_task(config), predicts, config.training.steps)
