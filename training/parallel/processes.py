"""The processes of one training: how they meet, agree, and end.

with joined(launch) as processes:
    with processes.all_or_none(): …              # an error of one ends all, and one says it
    processes.share(content)
"""

from __future__ import annotations

import atexit
import hashlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from reloop.conf.checks.processes import Launch
from reloop.conf.mistakes import ConfigError, EndedElsewhere, RunError

from ..signals import Interrupted
from .store import TrainingStore
from .watch import GRACE, Watchdog

# Its name from PyTorch 2.13 on, and before.
_all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor


class PeerEnded(RunError):
    """Another process of the training does not answer any more."""


class Processes:
    """The processes of a training, of which this is number `rank` of `size`. All call its methods
    in the same order.

    What the host has to know goes through gloo, gradients through `data`: NCCL on CUDA, else gloo.
    """

    def __init__(self, launch: Launch) -> None:
        self.rank, self.size, self.local_rank = launch.rank, launch.size, launch.local_rank
        self.store = TrainingStore()
        self.data: dist.ProcessGroup | None = None
        self.watchdog = Watchdog(self._report_stuck)
        self._signal: Tensor | None = None  # while it is exchanged
        self._work: dist.Work | None = None
        self._handlers: dict[int, Any] = {}
        self._agreed = False  # that training ends with an error

    def join(self) -> None:
        """Wait for the others. Raises PeerEnded where they do not come."""
        self.watchdog.start()
        self.store.connect()
        with _peers_answer():
            keys = self.store.keys
            dist.init_process_group("gloo", store=keys, rank=self.rank, world_size=self.size)
            self.data = dist.group.WORLD

    def take_gpu(self, device: str) -> None:
        """Make this process's GPU the one that `cuda` means, unless `device` is cpu. Raises
        ConfigError where there are fewer GPUs than processes."""
        if device == "cpu" or not torch.cuda.is_available():
            return
        if self.local_rank >= (gpus := torch.cuda.device_count()):
            raise ConfigError(
                "device",
                f"cannot be {device}: process {self.local_rank + 1} on this machine has no GPU of "
                f"its own, --nproc-per-node={gpus} would do",
            )
        torch.cuda.set_device(self.local_rank)

    def open(self, device: torch.device) -> None:
        """Let gradients on a device be exchanged."""
        if device.type == "cuda":
            self.data = dist.new_group(backend="nccl")

    @contextmanager
    def all_or_none(self) -> Iterator[None]:
        """Where this context ends with an error in some process, it does in all: that of the lowest
        rank, in others EndedElsewhere."""
        error = None
        try:
            yield
        except Exception as raised:
            error = raised
        with _peers_answer():
            first = torch.tensor(self.size if error is None else self.rank)
            dist.all_reduce(first, dist.ReduceOp.MIN)
        if int(first) == self.size:
            return
        self._agreed = True
        if error is None or int(first) != self.rank:
            raise EndedElsewhere("another process of this training says why it ended")
        if self.rank and isinstance(error, ConfigError):  # which the first alone would print
            raise RunError(str(error))
        raise error

    def share(self, content: bytes = b"") -> bytes:
        """The content that the first process gives, in all."""
        with _peers_answer():
            size = torch.tensor(len(content))
            dist.broadcast(size, 0)
            data = torch.empty(int(size), dtype=torch.uint8)
            if self.rank == 0:
                data = torch.frombuffer(bytearray(content), dtype=torch.uint8) if content else data
            if len(data):
                dist.broadcast(data, 0)
        return data.numpy().tobytes()

    def same(self, content: bytes) -> bool:
        """Whether all processes give the same content."""
        digest = int.from_bytes(hashlib.sha256(content).digest()[:8], "big", signed=True)
        with _peers_answer():
            # The complement's maximum is the least digest, so that one exchange gives both.
            ends = torch.tensor([digest, ~digest])
            dist.all_reduce(ends, dist.ReduceOp.MAX)
        return int(ends[0]) == ~int(ends[1])

    def gather(self, rows: Tensor, own: Tensor) -> None:
        """Fill `rows` [size x n, …] with `own` [n, …] of each process in turn: on a device, queued
        and capturable."""
        if own.is_cuda:
            _all_gather(rows, own, self.data)
            return
        with _peers_answer():
            _all_gather(rows, own, self.data)

    def stop_signal(self, noted: int, last: bool) -> int:
        """The number of a signal that some process had `noted` a step ago, the same in all; 0 for
        none. What is noted now is exchanged during the next step, or at once with the `last`."""
        self.watchdog.tick()
        number = self._received()
        if not number:
            self._signal = torch.tensor(noted)
            with _peers_answer():
                self._work = dist.all_reduce(self._signal, dist.ReduceOp.MAX, async_op=True)
        return self._received() if last and not number else number

    def _received(self) -> int:
        if self._work is None or self._signal is None:
            return 0
        with _peers_answer():
            self._work.wait()
        self._work = None
        return int(self._signal)

    def hold_signals(self) -> None:
        """From here on a signal ends nothing by itself: after the training, which notes signals,
        torchrun's copy of one that all have noted would cut off the last words."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._handlers[number] = signal.signal(number, lambda *_: None)

    def restore_handlers(self) -> None:
        """Let signals do what they did before `hold_signals`."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def note_saved(self, step: int) -> None:
        """Let all know that there is a checkpoint of this step."""
        self.watchdog.tick()
        with _peers_answer():
            self.store.note_saved(step)

    def leave(self) -> None:
        """End the exchange, when all are here."""
        self._received()
        # Through the store: who leaves gloo would cut off those who are still reading.
        self.store.leave_together(self.size)
        dist.destroy_process_group()

    def abandon(self) -> None:
        """End the exchange with others that may be gone."""
        if self._agreed:
            self.leave()
        elif self.data is not None and self.data is not dist.group.WORLD:
            # A GPU that waits for another's gradients would hold the process at its end.
            atexit.register(_exit_now)
            with suppress(RuntimeError):
                self.data.abort()

    def _report_stuck(self) -> None:
        if self.store.is_first_to_report():
            print(
                f"run.py: no step was completed within {GRACE:.0f} s of a signal: another process "
                f"of torchrun may have ended; {self.store.last_checkpoint()}",
                file=sys.stderr,
                flush=True,
            )


@contextmanager
def joined(launch: Launch) -> Iterator[Processes]:
    """Within this context the processes train together.

    An error in one ends all, and one line says so: RunError is raised in one process,
    EndedElsewhere in the others.
    """
    processes = Processes(launch)
    try:
        processes.join()
        yield processes
        processes.leave()
        processes.restore_handlers()
    except PeerEnded as error:
        processes.abandon()
        if not processes.store.is_first_to_report():
            raise EndedElsewhere(str(error)) from None
        raise RunError(f"{error}; {processes.store.last_checkpoint()}") from None
    except Interrupted:
        processes.leave()
        raise
    except BaseException as error:
        first = isinstance(error, EndedElsewhere) or processes.store.is_first_to_report()
        processes.restore_handlers()
        processes.abandon()
        if isinstance(error, RunError) and not first:
            raise EndedElsewhere(str(error)) from None
        raise
    finally:
        processes.watchdog.close()


@contextmanager
def _peers_answer() -> Iterator[None]:
    """Raises PeerEnded for what goes wrong between processes."""
    try:
        yield
    except RuntimeError as error:
        raise PeerEnded("another process of torchrun ended") from error


def _exit_now() -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(1)
