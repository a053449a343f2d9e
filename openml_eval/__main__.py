"""`python -m openml_eval held_out=720`: train on all tables but one, test on that one;
`action=fetch`: get the tables of the published experiment, and one's own; `action=ship`: make a run
the estimators' own checkpoint."""

from __future__ import annotations

if __name__ == "__main__":  # before the imports, which take a while
    from reloop.conf.entry import begin

    begin()

import sys
from collections.abc import Callable

from reloop.conf.checks.folders import check_folder
from reloop.conf.command import answered, defaults, run_command
from reloop.conf.mistakes import ConfigError, check_choice
from reloop.conf.schema import Config
from reloop.conf.words import settings_from_words
from reloop.openml_eval.run_settings import RunSettings, split_words
from reloop.openml_eval.settings import FetchSettings, ShipSettings

_RUN_HELP = """\
Train on all tables but one and test on that one; print ours beside the published Table 2 and what
scikit-learn makes of the same contexts.

  python -m openml_eval                                   # each of ten tables, looped and standard
  python -m openml_eval model=looped held_out=720
  python -m openml_eval 'held_out=[720,wind]' 'seeds=[0,1,2]' training.steps=2000
  python -m openml_eval protocol=reference scale=paper    # as published; wants a GPU
  python -m openml_eval action=fetch                      # get the tables first; it has a --help
  python -m openml_eval action=ship --help                # a run as LoopedClassifier()'s checkpoint

Settings, with their defaults:
{settings}
All others are run.py's (scale, seed, training.steps, device, folder, ...; python run.py --help).
The same command finds what is done and goes on where it stopped.

Exit code: 0 done, 1 a run failed, 2 a mistake in the command, 130 and 143 stopped by a signal.
"""
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
_SHIP_HELP = """\
Put the newest weights of a run where LoopedClassifier() or LoopedRegressor() finds them.

  python -m openml_eval action=ship run=runs/NAME name=classifier
  python -m openml_eval action=ship run=runs/NAME name=regressor

Kept are the weights and the settings that they came from; what was there before is replaced.
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
    action = given[0] if given else "run"
    check_choice("action", action, _ACTIONS)
    return action, rest


def _run(words: list[str]) -> int:
    if {"-h", "--help"} & set(words):
        print(_RUN_HELP.format(settings=defaults(RunSettings)), end="")
        return 0
    stopped = "stopped, with every training saved; the same command resumes"
    return answered("openml_eval", lambda: _left_out(words), stopped)


def _left_out(words: list[str]) -> int:
    """Leave out each table that the words ask for."""
    own, rest = split_words(words)
    settings = settings_from_words(RunSettings, own)
    settings.check()
    configs: dict[str, Config] = {each: _composed(each, rest) for each in settings.model}
    check_folder("folder", next(iter(configs.values())).folder)
    from reloop.openml_eval.leave_one_out import leave_one_out

    found = leave_one_out(settings, configs)
    print(f"\n{found.text}", flush=True)
    return 1 if found.failed else 0


def _composed(family: str, rest: list[str]) -> Config:
    """The configuration of a run of this family, as run.py puts it together."""
    from reloop.conf.compose import commands

    (command,) = commands(["task=tables", f"model={family}", *rest])
    if command.again:
        raise ConfigError("again", "is for run.py: name the run there, by its settings")
    return command.config


def _fetch(words: list[str]) -> int:
    stopped = "stopped; the same command resumes"
    return run_command("openml_eval", FetchSettings, words, _fetch_help, _fetched, stopped)


def _fetch_help() -> str:
    return _FETCH_HELP.format(settings=defaults(FetchSettings))


def _fetched(settings: FetchSettings) -> str:
    from reloop.openml_eval.tables.fetch import fetch

    return fetch(settings)


def _ship(words: list[str]) -> int:
    return run_command("openml_eval", ShipSettings, words, lambda: _SHIP_HELP, _shipped)


def _shipped(settings: ShipSettings) -> str:
    from reloop.openml_eval.ship import ship_run

    return ship_run(settings)


# What can be asked for: each takes the words beside action=, and gives the exit code.
_ACTIONS: dict[str, Callable[[list[str]], int]] = {
    "run": _run,
    "fetch": _fetch,
    "ship": _ship,
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
