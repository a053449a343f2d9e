"""The server that processes are forked from: it imports torch once. No torch here, so that it can
be started while this process still imports its own.

start_server("reloop.experiments.queue.job")
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from typing import Any

# One server forks every process; a fork of this process could inherit locks that another thread
# holds.
_FORKS = "forkserver" in multiprocessing.get_all_start_methods()
context: Any = multiprocessing.get_context("forkserver" if _FORKS else "spawn")
# What most jobs import when they begin, which takes seconds: torch's optimizers need the first.
_SLOW_IMPORTS = ("torch._dynamo", "matplotlib.figure", "matplotlib.backends.backend_agg")


def start_server(preload: str) -> None:
    """Start the server, unless it runs, which first imports the module `preload`. Where that fails,
    the first process that is started says why."""
    if not _FORKS:
        return
    context.set_forkserver_preload([preload, *_SLOW_IMPORTS])
    from multiprocessing import forkserver

    with without_ctrl_c(), suppress(OSError, EOFError):
        forkserver.ensure_running()


@contextmanager
def without_ctrl_c() -> Iterator[None]:
    """Processes started within this context never get the terminal's Ctrl-C, nor Slurm's word that
    the time is up (SIGUSR2): the process that started them ends them."""
    resource_tracker.ensure_running()  # started within, it would unblock Ctrl-C
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGUSR2})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)
