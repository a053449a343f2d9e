"""What a CUDA graph does, done on a CPU: a list of operations on fixed places in memory.

trainer.runner = GraphRunner(TapeRecorder())
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Generator, Tensor, UntypedStorage
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from reloop.training.graph import Body


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


class TapeRecorder:
    """A recorder whose graphs are tapes; `events` says what it was asked for."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def aside(self, body: Body) -> None:
        self.events.append("aside")
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
