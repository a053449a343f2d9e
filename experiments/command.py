"""`python run.py experiment=…`: published figures and tables, and further questions, by name."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from looplab.conf.checks.folders import check_folder
from looplab.conf.command import described, run_command
from looplab.conf.mistakes import ConfigError, check_device
from looplab.conf.schema import Config, FigureSettings, TableSettings
from looplab.conf.setting import check_settings, setting

from .definition import (
    ALL,
    ALL_LANGUAGE,
    Experiment,
    Member,
    folder_of,
    load,
    members_of,
    names,
    selected,
)


@dataclass(frozen=True)
class ExperimentSettings:
    """Which experiments, at which scale, and what to do with them."""

    experiment: tuple[str, ...] = setting(
        (), "names of conf/experiment/; all: those on functions; all_language: those on texts"
    )
    action: Literal["train", "plan", "figure"] = setting(
        "train",
        "train: train, measure, draw and judge; plan: list the runs and the time they take; "
        "figure: draw and judge from what is finished",
    )
    scale: Literal["small", "medium", "paper"] = setting("small", "how large task and model are")
    seeds: int | None = setting(None, "of each training; null: the experiment's", at_least=1)
    jobs: int | None = setting(
        None, "processes that train at once; null: one a core, one on a GPU", at_least=1
    )
    text: str = setting(
        "", "of language experiments, as task.text; empty: the novels that come with the project"
    )
    folder: str = setting(Config.folder, "where run folders are made")
    device: str = setting("auto", "auto, cpu, cuda, cuda:1 or mps", check=check_device)
    figures: FigureSettings = FigureSettings()
    tables: TableSettings = TableSettings()

    def check(self) -> None:
        """Raises ConfigError for the first invalid setting, an unknown experiment, and a scale that
        one has no settings for."""
        if not self.experiment:
            raise ConfigError("experiment", "must name an experiment: experiment=fig10, or all")
        for word in {ALL, ALL_LANGUAGE} & set(self.experiment):
            if len(self.experiment) > 1:
                raise ConfigError("experiment", f"holds {word} and more")
        for name in self.experiment:
            if self.experiment.count(name) > 1:
                raise ConfigError("experiment", f"holds {name} twice")
        check_settings("", self)
        if self.text and not any(each.reads_text(self.scale) for each in self.experiments):
            raise ConfigError("text", f"has no meaning for {', '.join(self.experiment)}")
        for experiment in self.experiments:
            self.members(experiment)
            is_named = not self.is_all
            if self.seeds and is_named and not experiment.at(self.scale).runs:
                problem = "whose trainings are those of another command"
                raise ConfigError("seeds", f"has no meaning for {experiment.name}, {problem}")
        check_folder("folder", self.folder)

    @property
    def experiments(self) -> list[Experiment]:
        """The named experiments; for `all` and `all_language`, those that have settings at the
        scale."""
        return selected(self.experiment, self.scale)

    @property
    def is_all(self) -> bool:
        """Whether all experiments of a kind are asked for."""
        return self.experiment in ((ALL,), (ALL_LANGUAGE,))

    def seeds_of(self, experiment: Experiment) -> int | None:
        """The number of seeds asked for; None where that is the experiment's own, or where it
        trains no runs."""
        at_scale = experiment.at(self.scale)
        return self.seeds if at_scale.runs and self.seeds != at_scale.seeds else None

    def command(self, experiment: Experiment) -> str:
        """The command that makes one of them as asked."""
        return experiment.command(self.scale, self.seeds_of(experiment), self._text_of(experiment))

    def result_folder(self, experiment: Experiment) -> Path:
        """Where the result of one of them is kept."""
        seeds = self.seeds_of(experiment)
        text = self._text_of(experiment)
        return folder_of(self.folder, experiment.name, self.scale, seeds, text)

    def members(self, experiment: Experiment) -> list[Member]:
        """The trainings of one of them."""
        return members_of(experiment, self.scale, self.folder, self.seeds, self.device, self.text)

    def _text_of(self, experiment: Experiment) -> str:
        """The text asked for; empty for an experiment without texts."""
        return self.text if experiment.reads_text(self.scale) else ""


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
    from .engine import perform

    return perform(settings)
