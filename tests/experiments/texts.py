"""Runs of language models without weights, whose held-out bits per byte and logs are chosen."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from looplab.conf.schema import (
    Config,
    CurriculumConfig,
    GrowthConfig,
    LoopsConfig,
    ModelConfig,
    TaskConfig,
    TrainingConfig,
)
from looplab.evaluation.bootstrap import Floats
from looplab.experiments import fully_looped as common
from looplab.experiments.scaling_law import runs as rows
from looplab.training import Run

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

    def measured(run: Run, settings: object) -> tuple[None, dict[str, Floats]]:
        return None, {"held_out": bits[run.path.name]}

    def logged(run: Run) -> list[dict[str, float]]:
        steps = np.arange(1, run.step + 1)
        return (logs or {}).get(run.path.name) or [{"step": int(s), "loss": 1.0} for s in steps]

    for name, replacement in (("measured", measured), ("logged", logged)):
        for place in (module, common, rows):
            if hasattr(place, name):
                monkeypatch.setattr(place, name, replacement)
