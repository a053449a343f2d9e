"""The variants of a training step that are compared."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import torch

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config
from looplab.training.assemble import build_curriculum, build_model, build_task
from looplab.training.device import place
from looplab.training.step import Trainer

from .reference import Reference

Step = Callable[[], object]


@dataclass(frozen=True)
class Variant:
    """`side` is ours or reference; `checkout` is the reference's; `capture`, of ours alone, makes
    the step a CUDA graph."""

    side: str
    backend: str
    precision: str
    capture: bool = False
    checkout: Path | None = None

    @property
    def name(self) -> str:
        """The name, as in `ours triton bf16 graph`."""
        return f"{self.kind} {self.precision}{' graph' if self.capture else ''}"

    @property
    def kind(self) -> str:
        """The kind, as in `reference compile`."""
        return f"{self.side} {self.backend}"

    def build(self, config: Config, device: torch.device) -> Step:
        """A new model on the device; returns the function that makes its next step. ConfigError if
        this machine cannot run it."""
        torch.backends.cuda.matmul.allow_tf32 = self.precision == "tf32"  # of the whole process
        if self.side == "reference":
            assert self.checkout is not None
            return Reference(self.checkout, config, device, self.backend == "compile").step
        placement, task = place(str(device), self.precision, self.backend), build_task(config)
        model = placement.prepare(build_model(config, task))
        trainer = Trainer(config, task, build_curriculum(config, task), model, capture=self.capture)
        steps = count()

        def step() -> None:
            trainer.update(next(steps))
            if self.capture and trainer.runner.recorder is None:  # the trainer prints a line
                raise RuntimeError("the step could not be captured as a CUDA graph")

        return step


def checked(variant: Variant, device: torch.device) -> Variant:
    """The variant with the backend that it runs by on the device; ConfigError for one that cannot
    run there."""
    backend = place(str(device), variant.precision, variant.backend).backend
    if variant.capture and device.type != "cuda":
        raise ConfigError("capture", f"needs an NVIDIA GPU, and cannot be on {device}")
    return replace(variant, backend=backend)
