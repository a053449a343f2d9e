"""The variants of a training step that are compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path
from typing import get_args

import torch

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config
from looplab.training.assemble import build_curriculum, build_model, build_task
from looplab.training.device import place
from looplab.training.step import Trainer
from looplab.training.together import Together

from .reference import Reference
from .settings import Backend, Precision
from .timing import Step


@dataclass(frozen=True)
class Variant:
    """`side` is ours or reference; `checkout` is the reference's; `runs`, of ours alone,
    differ in their seed and are trained together."""

    side: str
    backend: str
    precision: str
    capture: bool = False
    checkout: Path | None = None
    runs: int = 1

    @property
    def name(self) -> str:
        """As in `ours triton bf16 graph, 3 runs`."""
        graph = " graph" if self.capture else ""
        runs = f", {self.runs} runs" if self.runs > 1 else ""
        return f"{self.kind} {self.precision}{graph}{runs}"

    @property
    def kind(self) -> str:
        """As in `reference compile`."""
        return f"{self.side} {self.backend}"

    def facts(self) -> dict[str, object]:
        """Its name and fields as plain values, without the checkout."""
        facts = {key: value for key, value in asdict(self).items() if key != "checkout"}
        return {"name": self.name, **facts}

    def prepare(self) -> None:
        """Allow or forbid TF32 products, a setting of the process, before a step is made."""
        torch.backends.cuda.matmul.allow_tf32 = self.precision == "tf32"

    def build(self, config: Config, device: torch.device) -> Step:
        """A new model on the device, or one for each run; returns the function that makes the next
        step of each."""
        self.prepare()
        if self.side == "reference":
            assert self.checkout is not None
            return Reference(self.checkout, config, device, self.backend == "compile").step
        configs = [replace(config, seed=config.seed + run) for run in range(self.runs)]
        trainers = [make_trainer(each, device, self) for each in configs]
        trainer = trainers[0] if self.runs == 1 else Together(trainers)
        steps, update = count(), updates(trainer, self)
        return lambda: update(next(steps))


def parse_variants(words: Sequence[str], device: torch.device) -> list[Variant]:
    """Variants of ours from `backend:precision` or `backend:precision:graph`, each.

    Raises ConfigError for an unknown name and for a variant that the device cannot run.
    """
    backends, precisions, variants = get_args(Backend), get_args(Precision), []
    for word in words:
        backend, _, rest = word.partition(":")
        precision, _, graph = rest.partition(":")
        if backend not in backends or precision not in precisions or graph not in ("", "graph"):
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


def make_trainer(config: Config, device: torch.device, variant: Variant) -> Trainer:
    """Our trainer for a variant; ConfigError if this machine cannot run it."""
    placement, task = place(str(device), variant.precision, variant.backend), build_task(config)
    model = placement.prepare(build_model(config, task))
    return Trainer(config, task, build_curriculum(config, task), model, capture=variant.capture)


def updates(trainer: Trainer | Together, variant: Variant) -> Callable[[int], None]:
    """The trainer's `update`; RuntimeError if the variant's graph could not be captured, for which
    the trainer itself only prints a line."""
    runner = None if isinstance(trainer, Together) else trainer.runner

    def update(step: int) -> None:
        trainer.update(step)
        if variant.capture and (runner is None or runner.recorder is None):
            raise RuntimeError("the step could not be captured as a CUDA graph")

    return update
