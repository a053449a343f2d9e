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
from typing import Any, Protocol, TypeVar

from .checks import ConfigError, RunError
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
    import itself. A stop by Ctrl-C or SIGTERM is answered by `when_stopped`, and 130 or 143.
    """
    if {"-h", "--help"} & set(words):
        print(help_text(), end="")
        return 0
    return until_stopped(lambda: _done(name, cls, words, measure), when_stopped)


def until_stopped(do: Callable[[], int], when_stopped: str) -> int:
    """The exit code of what is done; 130 or 143, and `when_stopped` shown, where Ctrl-C or SIGTERM
    ends it, or ended a process of its own.

    Within, SIGTERM raises SystemExit as Ctrl-C does KeyboardInterrupt: what has processes of its
    own can then end them too.
    """
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        return do()
    except KeyboardInterrupt:
        code = 130
    except SystemExit as stop:
        if stop.code not in (130, 143):
            raise
        code = int(stop.code)
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)
    print(f"\n{when_stopped}", flush=True)
    return code


def _done(name: str, cls: type[_T], words: Sequence[str], measure: Callable[[_T], str]) -> int:
    try:
        settings = settings_from_words(cls, words)
        settings.check()
        return _measured(name, settings, measure)
    except ConfigError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2


def _measured(name: str, settings: _T, measure: Callable[[_T], str]) -> int:
    # As for run.py: threads that wait spin only briefly. Read when torch is loaded.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    try:
        print(measure(settings), flush=True)
    except (RunError, OSError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    return 0


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
