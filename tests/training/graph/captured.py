"""What a CUDA graph does, done on a CPU by tapes: lists of operations on fixed places in memory.
Small trainings whose steps are captured on them, and all that a step leaves behind.

trainer, recorder = captured_trainer(variant("muon", folder))
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor, UntypedStorage
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from looplab.conf.schema import Config, CurriculumConfig, GrowthConfig, ModelConfig, TaskConfig
from looplab.training.graph import Body, CudaRecorder, GraphRunner
from looplab.training.step import Trainer
from tests.training.tiny import copied, make_trainer, tiny


def tensors_in(values: object) -> Iterator[Tensor]:
    """The tensors in nested arguments or results."""
    return (leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor))


class Tape(TorchDispatchMode):
    """Notes every operation on tensors, below autograd, with the very tensors it read and wrote."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[tuple[Any, tuple[Any, ...], Mapping[str, Any], Any]] = []
        self._made: set[int] = set()
        self._found: dict[int, tuple[UntypedStorage, UntypedStorage]] = {}

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        for tensor in tensors_in((args, kwargs)):
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in self._made | self._found.keys():
                self._found[storage.data_ptr()] = storage, storage.clone()
        result = func(*args, **kwargs)
        if func.namespace != "profiler":
            for tensor in tensors_in(result):
                if tensor.data_ptr() not in self._found:
                    self._made.add(tensor.untyped_storage().data_ptr())
            self.calls.append((func, args, kwargs, result))
        return result

    def undo(self) -> None:
        """Put back whatever was there before and has been written to."""
        for storage, before in self._found.values():
            storage.copy_(before)

    @torch.no_grad()
    def replay(self) -> None:
        """Do it again: the same operations, in the same places, on what is there now."""
        for func, args, kwargs, result in self.calls:
            for place, value in zip(
                tensors_in(result), tensors_in(func(*args, **kwargs)), strict=True
            ):
                if place.data_ptr() != value.data_ptr():
                    place.copy_(value)


class TapeRecorder(CudaRecorder):
    """A recorder whose graphs are tapes; `events` says what it was asked for."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def warm_up(self, body: Body) -> None:
        self.events.append("warm_up")
        body()

    def capture(self, body: Body, generators: Sequence[Generator]) -> Callable[[], None]:
        self.events.append("capture")
        states = [generator.get_state() for generator in generators]
        with Tape() as tape:
            body()
        tape.undo()
        for generator, state in zip(generators, states, strict=True):
            generator.set_state(state)

        def replay() -> None:
            self.events.append("replay")
            tape.replay()

        return replay


# Stages of 6, 1, 3 and 5 steps, and what is left: some too short to be captured.
_GROWTH = CurriculumConfig(
    dims=GrowthConfig(start=1, intervals=(6, 30)),
    points=GrowthConfig(start=3, intervals=(7, 3)),
    loops=GrowthConfig(start=2, inc=1, intervals=(10, 5)),
)
RULE: dict[str, Any] = {"clip": 0.5, "warmup": 9, "decay": 0.5, "weight_decay": 0.1}
VARIANTS: dict[str, dict[str, Any]] = {
    "rule": {"training": RULE},
    "muon": {"training": RULE | {"optimizer": "muon"}},
    "jacobian": {"training": {"shards": 2, "jacobian_penalty": 0.1, "log_norms": True}},
    "distinct": {"task": TaskConfig("linear", 2, 5, distinct_prompts=4)},
    "sparse": {"task": TaskConfig("sparse_linear", 2, 5, settings={"sparsity": 2})},
    "multiply": {"model": ModelConfig("looped", 1, 16, 2, 5, injection="multiply")},
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


class BrokenRecorder(TapeRecorder):
    """Its captures fail; `held` are the generators of the last, which are unusable after that."""

    def capture(self, body: Body, generators: Sequence[Generator]) -> Callable[[], None]:
        self.events.append("capture")
        self.held = list(generators)
        raise RuntimeError("operation not permitted when stream is capturing\nand more\nlines")
