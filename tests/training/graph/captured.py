"""Small trainings whose steps are captured on tapes, and all that a step leaves behind.

trainer, recorder = captured_trainer(variant("muon", folder))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from torch import Generator, Tensor

from reloop.conf.schema import Config, CurriculumConfig, GrowthConfig, ModelConfig, TaskConfig
from reloop.training.graph import Body, GraphRunner
from reloop.training.step import Trainer
from tests.training.graph.tape import TapeRecorder
from tests.training.tiny import copied, make_trainer, tiny

# Stages of 6, 1, 3 and 5 steps, and what is left: some too short to be captured.
_GROWTH = CurriculumConfig(
    dims=GrowthConfig(start=1, intervals=(6, 30)),
    points=GrowthConfig(start=3, intervals=(7, 3)),
    loops=GrowthConfig(start=2, inc=1, intervals=(10, 5)),
)
RULE: dict[str, Any] = {"clip": 0.5, "warmup": 9, "decay": 0.5, "weight_decay": 0.1}
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "rule": {"training": RULE},
    "adam": {"training": RULE | {"optimizer": "adam"}},
    "muon": {"training": RULE | {"optimizer": "muon"}},
    "shards": {"training": {"shards": 2}},
    "jacobian": {"training": {"shards": 2, "jacobian_penalty": 0.1, "log_norms": True}},
    "distinct": {"task": TaskConfig("linear", 2, 5, distinct_prompts=4)},
    "noisy": {"task": TaskConfig("noisy_linear", 2, 5)},
    "sparse": {"task": TaskConfig("sparse_linear", 2, 5, settings={"sparsity": 2})},
    "tree": {"task": TaskConfig("decision_tree", 2, 5)},
    "relu": {"task": TaskConfig("relu_network", 2, 5)},
    "multiply": {"model": ModelConfig("looped", 1, 16, 2, 5, injection="multiply")},
    "tied": {"model": ModelConfig("tied", 2, 16, 2, 5, injection="none")},
    "standard": {"model": ModelConfig("standard", 2, 16, 2, 5, injection="none")},
}


def variant(name: str, folder: Path) -> Config:
    """A small run of 60 steps with one of VARIANTS."""
    changes = dict(VARIANTS[name])
    config = replace(tiny(folder, **changes.pop("training", {})), curriculum=_GROWTH)
    return replace(config, **changes)


def captured_trainer(config: Config) -> tuple[Trainer, TapeRecorder]:
    """A trainer that captures its steps, and its recorder."""
    trainer, recorder = make_trainer(config), TapeRecorder()
    trainer.runner = GraphRunner(recorder)
    return trainer, recorder


def everything(trainer: Trainer) -> dict[str, Tensor]:
    """A copy of what a step leaves behind: state, gradients, totals."""
    gradients = {name: p.grad for name, p in trainer.model.named_parameters()}
    present = {f"grad.{name}": grad for name, grad in gradients.items() if grad is not None}
    return copied(trainer.state() | present | {"totals": trainer.totals})


def capture_all(monkeypatch: pytest.MonkeyPatch) -> list[TapeRecorder]:
    """From here on every trainer captures its steps; the recorders, as they are made."""
    made: list[TapeRecorder] = []

    def runner(recorder: None) -> GraphRunner:
        made.append(TapeRecorder())
        return GraphRunner(made[-1])

    monkeypatch.setattr("reloop.training.step.GraphRunner", runner)
    return made


class BrokenRecorder(TapeRecorder):
    """Its captures fail; `held` are the generators of the last, which are unusable after that."""

    def capture(self, body: Body, generators: Sequence[Generator]) -> Callable[[], None]:
        self.events.append("capture")
        self.held = list(generators)
        raise RuntimeError("operation not permitted when stream is capturing\nand more\nlines")
