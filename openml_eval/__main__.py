"""`python -m openml_eval action=fetch`: the tables of the published experiment, and one's own."""

from __future__ import annotations

import sys
from collections.abc import Callable

from conf.checks import ConfigError, check_choice
from conf.command import defaults, run_command

from .settings import FetchSettings

_FETCH_HELP = """\
Fetch tables with two classes once, check them and keep them; afterwards no network is needed.

  python -m openml_eval action=fetch
  python -m openml_eval action=fetch cache_dir=PATH       # from an openml cache that is there
  python -m openml_eval action=fetch 'tables=[720,mine.csv]' target=bought

Settings, with their defaults:
{settings}
A table is an OpenML id or a CSV file with a header; target= is the CSV's column of classes, null
its last one. An openml cache is only read.
"""


def main(words: list[str]) -> int:
    """Do what the words ask for; the exit code."""
    try:
        action, rest = _split_action(words)
    except ConfigError as error:
        print(f"openml_eval: {error}", file=sys.stderr)
        return 2
    return _ACTIONS[action](rest)


def _split_action(words: list[str]) -> tuple[str, list[str]]:
    """Which action, and the words that are its settings."""
    given = [word.removeprefix("action=") for word in words if word.startswith("action=")]
    rest = [word for word in words if not word.startswith("action=")]
    if len(given) > 1:
        raise ConfigError("action", "is given twice")
    if not given and {"-h", "--help"} & set(words):
        given = ["fetch"]
    if not given:
        raise ConfigError("action", f"is missing; expected one of {', '.join(_ACTIONS)}")
    check_choice("action", given[0], _ACTIONS)
    return given[0], rest


def _fetch(words: list[str]) -> int:
    stopped = "stopped; the same command goes on"
    return run_command("openml_eval", FetchSettings, words, _fetch_help, _fetched, stopped)


def _fetch_help() -> str:
    return _FETCH_HELP.format(settings=defaults(FetchSettings))


def _fetched(settings: FetchSettings) -> str:
    from .fetch import fetch

    return fetch(settings)


# What can be asked for: each takes the words beside action=, and gives the exit code.
_ACTIONS: dict[str, Callable[[list[str]], int]] = {"fetch": _fetch}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
