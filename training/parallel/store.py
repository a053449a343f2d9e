"""torchrun's store of keys and values, which works even when processes are gone: it says how far
the run is saved, and which process reports the end of all."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import timedelta
from functools import cache
from itertools import count

from torch.distributed import PrefixStore, Store, rendezvous  # type: ignore[attr-defined]

from reloop.conf.mistakes import RunError, one_line

_SAVED, _REPORTED, _LEFT, _ALL_LEFT = "saved", "reported", "left", "all_left"
_TO_LEAVE = timedelta(seconds=30)
_trainings = count()  # a process may train several runs, one after another


class TrainingStore:
    """The part of the store that belongs to one training."""

    def __init__(self) -> None:
        self._keys: Store | None = None

    @property
    def keys(self) -> Store:
        """The store itself; RuntimeError before `connect`."""
        if self._keys is None:
            raise RuntimeError("not connected")
        return self._keys

    def connect(self) -> None:
        """Raises RunError where torchrun does not answer."""
        # torchrun --max-restarts keeps the store, and with it what the ended processes wrote.
        start = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        try:
            self._keys = PrefixStore(f"reloop {start} {next(_trainings)}", _store())
        except RuntimeError as error:
            raise RunError(f"torchrun does not answer: {one_line(error)}") from None

    def note_saved(self, step: int) -> None:
        """There is a checkpoint of this step."""
        self.keys.set(_SAVED, str(step))

    def last_checkpoint(self) -> str:
        """How far the run is saved, for a message."""
        with suppress(RuntimeError, ValueError):
            if self.keys.check([_SAVED]):
                return f"the last checkpoint is of step {int(self.keys.get(_SAVED)):,}"
        return "training had not begun"

    def is_first_to_report(self) -> bool:
        """Whether no other process has asked this before."""
        try:
            return bool(self.keys.add(_REPORTED, 1) == 1)
        except RuntimeError:  # torchrun itself is gone, with the machine that it was on
            return os.environ["LOCAL_RANK"] == "0"

    def leave_together(self, size: int) -> None:
        """Wait until all `size` processes are here, half a minute at most."""
        with suppress(RuntimeError):
            if self.keys.add(_LEFT, 1) == size:
                self.keys.set(_ALL_LEFT, "")
            self.keys.wait([_ALL_LEFT], _TO_LEAVE)


@cache
def _store() -> Store:
    store: Store = next(rendezvous("env://"))[0]
    return store
