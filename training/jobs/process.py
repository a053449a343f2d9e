"""Processes that end with the one that started them.

process = start_process(work, (job,))        # `work` begins with end_with_parent(threads)
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import torch

from .server import context, start_server, without_ctrl_c


def start_process(target: Callable[..., None], args: tuple[object, ...], preload: str) -> Any:
    """Start a process that calls `target` and that the terminal's Ctrl-C does not reach. `preload`
    names the module that its server imports first. EOFError and OSError where it cannot be
    started."""
    start_server(preload)
    process = context.Process(target=target, args=args)
    with without_ctrl_c():
        process.start()
    return process


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
