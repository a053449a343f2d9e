"""What the small commands (`python -m …`) have in common: words to settings, mistakes to one line.

sys.exit(run_command("probing", ProbingSettings, sys.argv[1:], help_text, measure))
"""

from __future__ import annotations

import os
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
    import itself.
    """
    if {"-h", "--help"} & set(words):
        print(help_text(), end="")
        return 0
    try:
        settings = settings_from_words(cls, words)
        settings.check()
        return _measured(name, settings, measure)
    except ConfigError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"\n{when_stopped}", flush=True)
        return 130


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
    shown = [f"{field.name}={_word(field.default)}" for field in fields(cls) if _optional(field)]
    return fill(" ".join(shown), 78, initial_indent="  ", subsequent_indent="  ")


def _optional(field: Any) -> bool:
    return field.name != "run" and field.default is not MISSING


def _word(value: Any) -> str:
    """A value as the command line reads it."""
    if isinstance(value, tuple):
        return f"[{','.join(map(_word, value))}]"
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
