"""The shared part of the small commands (`python -m …`): words to settings, mistakes to one line.

sys.exit(run_command("probing", ProbingSettings, sys.argv[1:], help_text, measure))
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import MISSING
from textwrap import wrap
from types import FrameType
from typing import Any, Protocol, TypeVar

from .checks.processes import is_follower, refuse_torchrun
from .mistakes import ConfigError, EndedElsewhere, RunError, one_line, out_of_memory
from .plugins import failure
from .setting import all_settings, names_of
from .words import as_called, settings_from_words


class Settings(Protocol):
    """The settings of a command: a dataclass with a check of its values."""

    def check(self) -> None:
        """Raises ConfigError for the first impossible setting."""


_T = TypeVar("_T", bound=Settings)

# Seconds for the first of several processes to print a mistake: torchrun ends all with the first
# that ends.
_HEAD_START = 5.0


def run_command(
    name: str,
    cls: type[_T],
    words: Sequence[str],
    help_text: Callable[[], str],
    measure: Callable[[_T], str | None],
    when_stopped: str = "stopped",
) -> int:
    """Run the command with these words and print the text, if any, that `measure` returns; the exit
    code.

    Help, and mistakes that `cls` checks, need no torch: `measure` imports what it needs. Errors and
    signals are handled by `answered`.
    """
    if {"-h", "--help"} & set(words):
        print(as_called(help_text()), end="")
        return 0

    def do() -> int:
        settings = settings_from_words(cls, words)
        settings.check()
        if (text := measure(settings)) is not None:
            print(text, flush=True)
        return 0

    return answered(name, do, when_stopped)


def answered(
    name: str, do: Callable[[], int], when_stopped: str, in_processes: bool = False
) -> int:
    """The exit code of `do`: its own; 2 for a mistake and 1 for an error, each printed in a line
    that begins with `name`, as it was called; 130 or 143, and `when_stopped` printed, for Ctrl-C or
    SIGTERM, here or in a child process. Under torchrun it is a mistake, unless `do` works
    `in_processes`; of several processes the first prints a mistake."""
    try:
        if not in_processes:
            refuse_torchrun("this command")
        return _until_stopped(do, when_stopped)
    except EndedElsewhere:
        return 1
    except (ConfigError, RunError, OSError) as error:
        if isinstance(error, ConfigError) and is_follower():
            time.sleep(_HEAD_START)
        else:
            print(as_called(f"{name}: {error}"), file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 1
    except Exception as error:
        line = "out of memory; fewer prompts or a smaller batch need less"
        if not out_of_memory(error) and not (line := failure(error) or _compiler_failure(error)):
            raise
        print(as_called(f"{name}: {line}"), file=sys.stderr)
        return 1


def _compiler_failure(error: Exception) -> str:
    """A line on a compiler that is there and does not compile; empty for any other error."""
    if not type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
        return ""
    reason = one_line(error).split(" Set TORCHDYNAMO")[0][-200:]
    return f"backend=compile cannot compile here: … {reason}; backend=auto needs no compiler"


def _until_stopped(do: Callable[[], int], when_stopped: str) -> int:
    """The exit code of `do`; 130 or 143, and `when_stopped` printed, where SIGINT or SIGTERM ends
    it, or ended a child process.

    Within, SIGINT raises KeyboardInterrupt and SIGTERM SystemExit, so that `do` can end its child
    processes.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        # Here nothing can be raised safely: the process ends at once, as by a signal.
        if _importing(frame):
            try:
                print(f"\n{when_stopped}", flush=True)
            finally:
                os._exit(128 + number)
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)

    previous = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        try:
            for number, handler in previous.items():
                if handler != signal.SIG_IGN:  # a shell ignores it for its background jobs
                    signal.signal(number, stop)
            return do()
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler or signal.SIG_DFL)
    except KeyboardInterrupt:
        code = 130
    except SystemExit as error:
        if error.code not in (130, 143):
            raise
        code = int(error.code)
    if previous[signal.SIGINT] == signal.SIG_DFL:  # the process is about to end, see conf/entry.py
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    print(f"\n{when_stopped}", flush=True)
    return code


def _importing(frame: FrameType | None) -> bool:
    """Says whether a module is being imported. An exception raised there may be swallowed, become
    another exception, or abort the process within a module's C code."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def described(cls: type[Any]) -> str:
    """The settings of a dataclass, each with its default, meaning, names and range, as lines for
    --help."""
    lines = []
    for key, item in all_settings(cls).items():
        word = key if item.default is MISSING else f"{key}={as_word(item.default)}"
        names = ", ".join(map(str, names_of(item.hint)))
        notes = "; ".join(filter(None, (names, item.info.range)))
        text = f"{item.info.meaning} ({notes})" if notes else item.info.meaning
        # Meanings stand in one column, from the 32nd character on.
        start = f"  {word:28} " if len(word) < 29 else f"  {word}\n{' ' * 31}"
        lines.append(start + f"\n{' ' * 31}".join(wrap(text, 69)))
    return "\n".join(lines)


def as_word(value: Any) -> str:
    """A value as the command line reads it."""
    if isinstance(value, tuple | list):
        return f"[{','.join(map(as_word, value))}]"
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
