"""The variants of a training step that are compared."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import get_args

import torch

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config
from looplab.training.assemble import build_curriculum, build_model, build_task
from looplab.training.device import Placement, place, shape_of
from looplab.training.step import Trainer

from .reference import Reference
from .settings import Backend, Precision

Step = Callable[[], object]


@dataclass(frozen=True)
class Variant:
    """One way to make a training step: whose code (`side`, "ours" or "reference"), backend and
    precision. Of ours, `capture` makes it a CUDA graph; of the reference, `checkout` is its folder.
    """

    side: str
    backend: str
    precision: str
    capture: bool = False
    checkout: Path | None = None

    @property
    def name(self) -> str:
        """Kind, precision and capture, as in `ours triton bf16 graph`."""
        return f"{self.kind} {self.precision}{' graph' if self.capture else ''}"

    @property
    def kind(self) -> str:
        """Side and backend, as in `reference compile`."""
        return f"{self.side} {self.backend}"

    def build(self, config: Config, device: torch.device) -> Step:
        """A new model on the device; returns the function that makes its next step."""
        if self.side == "reference":
            assert self.checkout is not None
            _allow_tf32(self.precision)
            return Reference(self.checkout, config, device, self.backend == "compile").step
        trainer = self.trainer(config, device)
        # A step's number seeds its batch: each call makes the next one.
        steps = count()
        return lambda: self.update(trainer, next(steps))

    def trainer(self, config: Config, device: torch.device) -> Trainer:
        """Our trainer; ConfigError if this machine cannot run it."""
        _allow_tf32(self.precision)
        task = build_task(config)
        model = self.placement(config, device).prepare(build_model(config, task))
        return Trainer(config, task, build_curriculum(config, task), model, capture=self.capture)

    def placement(self, config: Config, device: torch.device) -> Placement:
        """Where and how a step of ours computes; ConfigError if this machine cannot run it."""
        shape = shape_of(config)
        return place(str(device), self.precision, self.backend, shape)

    def update(self, trainer: Trainer, step: int) -> None:
        """Make a step; RuntimeError if its graph could not be captured, for which the trainer
        itself only prints a line."""
        trainer.update(step)
        if self.capture and trainer.runner.recorder is None:
            raise RuntimeError("the step could not be captured as a CUDA graph")


def _allow_tf32(precision: str) -> None:
    """Allow or forbid TF32 products, a setting of the process."""
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"


def parse_variants(words: Sequence[str], device: torch.device) -> list[Variant]:
    """Our variants that the words name, each `backend:precision` or `backend:precision:graph`.

    Raises ConfigError for an unknown name and for a variant that the device cannot run.
    """
    backends = get_args(Backend)
    precisions = get_args(Precision)
    variants = []
    for word in words:
        backend, _, rest = word.partition(":")
        precision, _, graph = rest.partition(":")
        if not (backend in backends and precision in precisions and graph in ("", "graph")):
            raise ConfigError(
                "a variant",
                f"is backend:precision or backend:precision:graph, with a backend of "
                f"{', '.join(backends)} and a precision of {', '.join(precisions)}, got {word!r}",
            )
        variants.append(checked(Variant("ours", backend, precision, bool(graph)), device))
    return variants


def checked(variant: Variant, device: torch.device) -> Variant:
    """The variant with the backend that it runs by on the device; ConfigError for one that cannot
    run there."""
    backend = place(str(device), variant.precision, variant.backend).backend
    if variant.capture and device.type != "cuda":
        raise ConfigError("capture", f"needs an NVIDIA GPU, and cannot be on {device}")
    return replace(variant, backend=backend)
