"""What holds of every measurement and of its panels, runs of models that predict as is chosen, and
runs of language models without weights, whose held-out bits per byte and logs are chosen."""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Literal, cast

import numpy as np
import pytest
from torch import Tensor

from looplab.conf.schema import (
    Config,
    CurriculumConfig,
    FigureSettings,
    GrowthConfig,
    LoopsConfig,
    ModelConfig,
    TaskConfig,
    TrainingConfig,
)
from looplab.evaluation.bootstrap import Floats
from looplab.experiments import fully_looped as common
from looplab.experiments.question import Answer, _plain
from looplab.experiments.scaling_law import runs as rows
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


def check_found_again(measure: Callable[[bool], Answer]) -> Answer:
    """What is measured, which is found again when only what is stored is asked for; panels that can
    be drawn."""
    nothing = measure(True)
    assert (nothing.results, list(nothing.panels)) == ({}, [])
    assert nothing.missing
    found = measure(False)
    assert not found.missing
    check_panels(found.panels)
    again = measure(True)
    assert (again.results, again.panels) == (found.results, found.panels)
    return found


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


_TASK = TaskConfig("language", 1, 8, settings={"tokens": "bytes"})


class Text:
    """In a task's place."""

    is_text = True
    dims = 1
    divisor = 1.0


def run(name: str, seed: int = 0, model: Any = None, **changes: Any) -> Run:
    """A run at runs/NAME with settings of its groups changed, all loops from the first step."""
    loops = changes.get("loops", LoopsConfig(b=2, T=1, grad_loops="all"))
    config = Config(
        task=_TASK,
        model=changes.get("model_config", ModelConfig("looped", 2, 16, 2, 8, block="flt")),
        loops=loops,
        curriculum=CurriculumConfig(loops=GrowthConfig(start=loops.b)),
        training=changes.get("training", TrainingConfig(steps=100)),
        seed=seed,
    )
    return Run(Path("runs") / name, config, cast(Any, Text()), model, config.training.steps)


def give(
    monkeypatch: pytest.MonkeyPatch, module: Any, bits: dict[str, Floats], logs: Any = None
) -> None:
    """Let a measure's module find these bits per byte [blocks, loops] and these records by the name
    of a run."""

    def evaluated(run: Run, settings: object) -> tuple[None, dict[str, Floats]]:
        return None, {"held_out": bits[run.path.name]}

    def logged(run: Run) -> list[dict[str, float]]:
        steps = np.arange(1, run.step + 1)
        return (logs or {}).get(run.path.name) or [{"step": int(s), "loss": 1.0} for s in steps]

    for name, replacement in (("evaluated", evaluated), ("logged", logged)):
        for place in (module, common, rows):
            if hasattr(place, name):
                monkeypatch.setattr(place, name, replacement)
