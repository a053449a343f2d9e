"""What the small commands (`python -m …`) have in common: words to settings, mistakes to one line.

sys.exit(run_command("probing", ProbingSettings, sys.argv[1:], help_text, measure))
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields
from textwrap import fill
from types import FrameType
from typing import Any, Protocol, TypeVar

from .checks.machine import out_of_memory
from .mistakes import ConfigError, RunError
from .words import settings_from_words


class Settings(Protocol):
    """What a command may be asked for: a dataclass that knows what cannot be."""

    def check(self) -> None:
        """Raises ConfigError for the first setting that cannot be."""


_T = TypeVar("_T", bound=Settings)


def run_command(
    name: str,
    cls: type[_T],
    words: Sequence[str],
    help_text: Callable[[], str],
    measure: Callable[[_T], str],
    when_stopped: str = "stopped",
) -> int:
    """Do what the words ask for and show what `measure` says of it; the exit code.

    Help and mistakes that `cls` can see are answered without torch: what needs it, `measure` is to
    import itself. The rest is as `answered` has it.
    """
    if {"-h", "--help"} & set(words):
        print(help_text(), end="")
        return 0

    def do() -> int:
        settings = settings_from_words(cls, words)
        settings.check()
        print(measure(settings), flush=True)
        return 0

    return answered(name, do, when_stopped)


def answered(name: str, do: Callable[[], int], when_stopped: str) -> int:
    """The exit code of what is done: its own; 2 for a mistake and 1 for what cannot go on, each
    told in a line that begins with `name`; 130 or 143, and `when_stopped` shown, for Ctrl-C or
    SIGTERM, here or in a process of its own."""
    # Threads that wait spin only briefly. On cores that others use too, spinning for long makes a
    # small model's step a hundred times slower; not spinning at all, half as fast. Read when torch
    # is loaded.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    try:
        _check_working_folder()
        return _until_stopped(do, when_stopped)
    except (ConfigError, RunError, OSError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 1
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        print(f"{name}: out of memory; fewer prompts or a smaller batch need less", file=sys.stderr)
        return 1


def _check_working_folder() -> None:
    try:
        os.getcwd()
    except FileNotFoundError:
        raise ConfigError("the working directory", "does not exist any more") from None


def _until_stopped(do: Callable[[], int], when_stopped: str) -> int:
    """The exit code of what is done; 130 or 143, and `when_stopped` shown, where SIGINT or SIGTERM
    ends it, or ended a process of its own.

    Within, SIGINT raises KeyboardInterrupt and SIGTERM SystemExit: what has processes of its own
    can then end them too.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        if _importing(frame):
            try:
                print(f"\n{when_stopped}", flush=True)
            finally:
                os._exit(128 + number)
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        try:
            for number, handler in before.items():
                if handler != signal.SIG_IGN:  # as a shell has it for what runs in its background
                    signal.signal(number, stop)
            return do()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler or signal.SIG_DFL)
    except KeyboardInterrupt:
        code = 130
    except SystemExit as stopped:
        if stopped.code not in (130, 143):
            raise
        code = int(stopped.code)
    if before[signal.SIGINT] == signal.SIG_DFL:  # a process that is about to end, see conf/entry.py
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    print(f"\n{when_stopped}", flush=True)
    return code


def _importing(frame: FrameType | None) -> bool:
    """Whether a module is being imported. What is raised there may be swallowed, become another
    exception, or abort the process within a module's C code."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def defaults(cls: type[Any]) -> str:
    """The settings of a dataclass that have a default, as words of a command, in lines."""
    shown = [f"{field.name}={as_word(field.default)}" for field in fields(cls) if _optional(field)]
    return fill(" ".join(shown), 78, initial_indent="  ", subsequent_indent="  ")


def _optional(field: Any) -> bool:
    return field.name != "run" and field.default is not MISSING


def as_word(value: Any) -> str:
    """A value as the command line reads it."""
    if isinstance(value, tuple):
        return f"[{','.join(map(as_word, value))}]"
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
