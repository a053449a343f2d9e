"""Processes that end with the one that started them.

process = start_process(work, (job,))        # `work` begins with end_with_parent(threads)
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Any

import torch

# One server imports torch once and forks every process; a fork of this process could inherit locks
# that another thread holds.
# What most jobs import when they begin, which takes seconds: torch's optimizers need the first.
_SLOW_IMPORTS = ("torch._dynamo", "matplotlib.figure", "matplotlib.backends.backend_agg")
_FORKS = "forkserver" in multiprocessing.get_all_start_methods()
context: Any = multiprocessing.get_context("forkserver" if _FORKS else "spawn")


def start_process(target: Callable[..., None], args: tuple[object, ...], preload: str) -> Any:
    """Start a process that calls `target` and that the terminal's Ctrl-C does not reach. `preload`
    names the module that its server imports first. EOFError and OSError where it cannot be
    started."""
    if _FORKS:
        context.set_forkserver_preload([preload, *_SLOW_IMPORTS])
    process = context.Process(target=target, args=args)
    with _without_ctrl_c():
        process.start()
    return process


@contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """Processes started within this context never get the terminal's Ctrl-C, nor Slurm's word that
    the time is up (SIGUSR2): the process that started them ends them."""
    resource_tracker.ensure_running()  # started within, it would unblock Ctrl-C
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGUSR2})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)


def end_with_parent(threads: int, note: Callable[[str], None] = lambda line: None) -> None:
    """In a started process: let it end by SIGTERM when the one that started it has ended, after
    `note` of a line that says so; give it so many threads."""
    # Outside of training there is nothing to save: a SIGTERM ends the process at once.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_wait_for_parent, args=(note,), daemon=True).start()
    torch.set_num_threads(threads)


def _wait_for_parent(note: Callable[[str], None]) -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    note(f"stopped: process {parent.pid}, which started this one, is gone")
    os.kill(os.getpid(), signal.SIGTERM)


def describe_exit(code: int) -> str:
    """How a process ended, as text, from its exit code."""
    if code >= 0:
        return f"ended with code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
