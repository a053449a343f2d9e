"""`python run.py experiment=…`: published figures and tables, and further questions, by name."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from looplab.conf.command import described, run_command

from .definition import load, names
from .settings import ExperimentSettings

_STOP_MESSAGE = "stopped, with every training saved; the same command resumes"
_HELP = """\
Carry out named experiments: train their runs, measure, draw, and judge the claims of their papers.

  python run.py experiment=fig03                      minutes on a laptop
  python run.py experiment=fig03 action=plan          its runs, and the time they take
  python run.py experiment=fig03 action=figure        drawn from what is finished
  python run.py 'experiment=[fig02,fig03]' scale=medium
  python run.py experiment=all                        those on functions in context
  python run.py experiment=all_language text=wiki.txt those on texts, on a text of your own

Runs are ordinary run folders, under the names that they have when trained by hand: experiments
share them, and the models that ship are taken where they fit. The same command resumes.

Experiments
{experiments}

Settings, with their defaults:
{settings}

Exit code: 0 done, 1 a run failed, 2 a mistake in the command, 130 and 143 stopped by a signal.
"""


def is_for_experiments(words: Sequence[str]) -> bool:
    """Whether run.py's words are for this command."""
    return any(word.startswith("experiment=") or word == "action=figure" for word in words)


def main(words: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    if {"-m", "--multirun"} & set(words):
        hint = "is for runs; several experiments: 'experiment=[fig03,fig04]'"
        print(f"run.py: -m {hint}", file=sys.stderr)
        return 2
    return run_command("run.py", ExperimentSettings, words, _help, _perform, _STOP_MESSAGE)


def _help() -> str:
    lines = []
    for experiment in map(load, names()):
        scales = ", ".join(experiment.scales)
        lines.append(f"  {experiment.name:20} {experiment.title} ({scales})")
    return _HELP.format(experiments="\n".join(lines), settings=described(ExperimentSettings))


def _perform(settings: ExperimentSettings) -> str:
    if settings.action == "plan":
        from .plan import plan

        return plan(settings)
    from .perform import perform

    return perform(settings)
