"""A process that hangs after a signal ends; one that goes on does not."""

from __future__ import annotations

import subprocess
import sys

from tests.conftest import HOME

_START = """
import os, signal, threading, time
from reloop.training.parallel import watch
watch.GRACE = 0.4
signal.signal(signal.SIGTERM, lambda *_: None)
dog = watch.Watchdog(lambda: print("stuck", flush=True))
dog.start()
"""
_HANG = "os.kill(os.getpid(), signal.SIGTERM); threading.Lock().acquire(); time.sleep(60)"
_WORK = """
os.kill(os.getpid(), signal.SIGTERM)
for _ in range(10):
    time.sleep(0.1); dog.tick()
dog.close()
print("done")
"""


def _run(end: str) -> tuple[int, str]:
    code = [sys.executable, "-c", _START + end]
    done = subprocess.run(code, cwd=HOME, capture_output=True, text=True, timeout=50)
    assert not done.stderr
    return done.returncode, done.stdout


def test_it_ends_what_hangs_after_a_signal() -> None:
    assert _run(_HANG) == (1, "stuck\n")


def test_it_leaves_what_goes_on() -> None:
    assert _run(_WORK) == (0, "done\n")
