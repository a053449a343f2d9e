"""`python run.py search=…`: settings that Optuna chooses."""

from __future__ import annotations

from collections.abc import Sequence

from reloop.conf.checks.folders import check_folder
from reloop.conf.command import answered, described
from reloop.conf.mistakes import ConfigError

from .settings import SearchSettings, is_for_search, names

__all__ = ["is_for_search", "main"]
_HELP = """\
Search for the settings of least error: Optuna chooses them, each trial is an ordinary run.

  python run.py search=rate                           conf/search/rate.yaml
  python run.py search=rate task=sparse_linear training.steps=2000 trials=30 jobs=4
  python run.py search=mine.yaml                      a file of your own, written as those there

All other words are settings of every trial. The same command goes on, in any number of shells and
on any machines that see the folder: they share the trials. More trials=N go on too. It needs Optuna
(pip install 'optuna~=4.9').

Searches
  {searches}

Settings, with their defaults (a file sets some of them):
{settings}

Exit code: 0 done, 1 a process or all trials failed, 2 a mistake in the command, 130 and 143 stopped
by a signal.
"""


def main(words: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    if {"-h", "--help"} & set(words):
        print(_HELP.format(searches="  ".join(names()), settings=described(SearchSettings)), end="")
        return 0
    stop_message = "stopped, with every training saved; the same command resumes"
    return answered("run.py", lambda: _run(words), stop_message)


def _run(words: Sequence[str]) -> int:
    if {"-m", "--multirun"} & set(words):
        raise ConfigError("-m", "is for a grid: a search chooses its runs itself")
    from .definition import Search

    search = Search.of(words)
    check_folder("folder", search.first.folder)
    from .journal import check_optuna  # imports the lock of run folders

    check_optuna()
    from .run import run_search  # imports torch

    return run_search(search)
