"""`python run.py experiment=…`: published figures and tables, and further questions, by name;
`python run.py -m …`: grids, many runs of one command; `action=report`: one page of everything in
the runs folder. No torch here.

settings, words = grid_settings(["task=linear", "seed=0,1", "jobs=4"])
"""

import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from looplab.conf.checks.folders import check_folder
from looplab.conf.checks.processes import refuse_torchrun
from looplab.conf.checksum import key_of
from looplab.conf.command import answered, described, run_command
from looplab.conf.compose import commands
from looplab.conf.help import help_text as help_of_runs
from looplab.conf.mistakes import ConfigError, check_device
from looplab.conf.schema import Config, FigureSettings, TableSettings
from looplab.conf.setting import check_settings, setting
from looplab.conf.words import settings_from_words

from .definition import Experiment, Member, load, members_of, names

ALL, ALL_LANGUAGE = ("all",), ("all_language",)
MULTIRUN = {"-m", "--multirun"}
_STOP_MESSAGE = "stopped, with every training saved; the same command resumes"


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
        check_settings("", self)
        experiments = self.experiments
        if self.text and not any(each.reads_text(self.scale) for each in experiments):
            raise ConfigError("text", f"has no meaning for {', '.join(self.experiment)}")
        for experiment in experiments:
            self.members(experiment)
            if self.seeds and not self.is_all and not experiment.at(self.scale).runs:
                problem = "whose trainings are those of another command"
                raise ConfigError("seeds", f"has no meaning for {experiment.name}, {problem}")
        check_folder("folder", self.folder)

    @property
    def experiments(self) -> list[Experiment]:
        """The named experiments; for `all`, those on functions in context that have settings at the
        scale, and for `all_language` those on texts."""
        if not self.is_all:
            return [load(word) for word in dict.fromkeys(self.experiment)]
        found = [each for each in map(load, names()) if self.scale in each.scales]
        on_texts = self.experiment == ALL_LANGUAGE
        found = [each for each in found if each.reads_text(self.scale) == on_texts]
        if not found:
            problem = f"cannot be {self.scale!r}: no experiment of {self.experiment[0]} has it"
            raise ConfigError("scale", problem)
        return found

    @property
    def is_all(self) -> bool:
        """Says whether all experiments of a kind are asked for."""
        return self.experiment in (ALL, ALL_LANGUAGE)

    def members(self, experiment: Experiment) -> list[Member]:
        """The trainings of one of them."""
        return members_of(experiment, self.scale, self.folder, self.seeds, self.device, self.text)

    def command(self, experiment: Experiment) -> str:
        """The command that makes one of them as asked."""
        seeds, text = self._own(experiment)
        own = f" seeds={seeds}" if seeds else ""
        own += f" {shlex.quote(f'text={text}')}" if text else ""
        return f"python run.py experiment={experiment.word} scale={self.scale}{own}"

    def result_folder(self, of: Experiment | str) -> Path:
        """The folder in which the result of one of them is kept, or what is called by a name; a
        folder of its own for a number of seeds that is not the experiment's, and for a text."""
        seeds, text = (self.seeds, self.text) if isinstance(of, str) else self._own(of)
        name = of if isinstance(of, str) else of.name
        own = f"-{seeds}-seed{'s' * (seeds > 1)}" if seeds else ""
        if text:
            place = Path(text).absolute()
            stem = re.sub(r"[^A-Za-z0-9]+", "_", place.stem)
            own += f"-on-{stem}-{key_of(str(place))[:4]}"
        return Path(self.folder) / "experiments" / f"{name}-{self.scale}{own}"

    def _own(self, experiment: Experiment) -> tuple[int | None, str]:
        """The number of seeds asked for, None where that is the experiment's own or it trains no
        runs; and the text, empty for an experiment without texts."""
        at_scale = experiment.at(self.scale)
        seeds = self.seeds if at_scale.runs and self.seeds != at_scale.seeds else None
        return seeds, self.text if experiment.reads_text(self.scale) else ""


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


def main(words: Sequence[str]) -> int:
    """Run `experiment=…`; returns the exit code."""
    if MULTIRUN & set(words):
        hint = "is for runs; several experiments: 'experiment=[fig03,fig04]'"
        print(f"run.py: -m {hint}", file=sys.stderr)
        return 2

    def help_text() -> str:
        found = [
            f"  {each.name:20} {each.title} ({', '.join(each.scales)})"
            for each in map(load, names())
        ]
        return _HELP.format(experiments="\n".join(found), settings=described(ExperimentSettings))

    def carry_out(settings: ExperimentSettings) -> str:
        if settings.action == "plan":
            from .plan import plan

            return plan(settings)
        from .engine import perform

        return perform(settings)

    return run_command("run.py", ExperimentSettings, words, help_text, carry_out, _STOP_MESSAGE)


@dataclass(frozen=True)
class EngineSettings:
    """The settings that start the processes; but for `name`, what each task of a Slurm job array
    gets."""

    name: Literal["local", "slurm"] = setting(
        "local", "local: this machine; slurm: a job array; engine=slurm for short"
    )
    partition: str = setting("", "Slurm's partition; empty: its default")
    account: str = setting("", "the account that pays; empty: the default")
    minutes: int = setting(
        60, "of a task; then it goes back into Slurm's line, and goes on from there", at_least=1
    )
    gpus: int = setting(0, "GPUs of a task", at_least=0)
    cpus: int = setting(1, "processor cores of a task", at_least=1)
    memory: float = setting(4.0, "GB of a task", above=0)
    pack: int = setting(
        1, "runs in a task, at once as far as its cores reach, or one by one on its GPU", at_least=1
    )
    at_once: int = setting(256, "tasks at once", at_least=1)
    setup: tuple[str, ...] = setting((), "shell commands before each task, as 'module load cuda'")


@dataclass(frozen=True)
class GridSettings:
    """The way in which the runs of a grid are carried out."""

    jobs: int | None = setting(
        None, "processes at once; null: one a core, one on a GPU or one for each of devices",
        at_least=1,
    )  # fmt: skip
    devices: tuple[int, ...] = setting(
        (), "numbers of the CUDA devices that the processes get in turn; none: all see all",
        at_least=0,
    )  # fmt: skip
    engine: EngineSettings = EngineSettings()

    def check(self) -> None:
        """Raises ConfigError for the first invalid setting."""
        check_settings("", self)
        check_settings("engine.", self.engine)
        if self.engine.name == "slurm" and self.devices:
            problem = "has no meaning with engine=slurm; engine.gpus= says how many"
            raise ConfigError("devices", problem)
        for key, value in vars(self.engine).items():
            if self.engine.name == "local" and value != getattr(EngineSettings, key):
                raise ConfigError(f"engine.{key}", "is for engine=slurm")


def grid_settings(words: Sequence[str]) -> tuple[GridSettings, list[str]]:
    """The settings of a grid, and the words of its runs. Raises ConfigError for a mistake in one of
    the former."""
    own = []
    for word in filter(_is_of_grid, words):
        key, _, value = word.partition("=")
        if key == "engine":  # for short
            key = "engine.name"
        if key == "devices" and value and value[0] != "[":  # 0,1
            value = f"[{value}]"
        own.append(f"{key}={value}")
    settings = settings_from_words(GridSettings, own)
    settings.check()
    return settings, [word for word in words if not _is_of_grid(word)]


def _is_of_grid(word: str) -> bool:
    return word.partition("=")[0].partition(".")[0] in GridSettings.__dataclass_fields__


def check_single(words: Sequence[str]) -> None:
    """Raises ConfigError where the words of a single run set something of a grid."""
    for word in filter(_is_of_grid, words):
        raise ConfigError(word.partition("=")[0], "is for the runs of a grid: run.py -m …")


def grid(words: Sequence[str]) -> int:
    """Run `run.py -m …`; returns the exit code."""
    if {"-h", "--help"} & set(words):
        print(help_of_runs(), end="")
        return 0

    def run() -> int:
        refuse_torchrun("a grid (-m)")
        settings, own = grid_settings([word for word in words if word not in MULTIRUN])
        members = commands(own, multirun=True)
        for member in members:
            if member.action != "train":
                problem = f"cannot be {member.action} for a grid (-m), which trains"
                raise ConfigError("action", problem)
            if settings.devices and member.config.device not in ("auto", "cuda"):
                problem = f"has no meaning with device={member.config.device}"
                raise ConfigError("devices", problem)
            check_folder("folder", member.config.folder)
        from .grid import run_grid  # imports torch

        return run_grid(members, settings)

    return answered("run.py", run, _STOP_MESSAGE, in_processes=True)


@dataclass(frozen=True)
class ReportSettings:
    """The content of a report, and where it is written. Without `experiment` and `runs`: everything
    in `folder`."""

    experiment: str | None = setting(
        None, "one named experiment with its runs, or all of them; null: everything"
    )
    runs: tuple[str, ...] = setting((), "run folders, or patterns such as runs/linear-*")
    folder: str = setting("runs", "where runs, experiments and comparisons are")
    output: str = setting("report", "the folder that index.html is written into")

    def check(self) -> None:
        """Raises ConfigError for the first invalid setting."""
        check_settings("", self)
        if self.experiment is not None and self.runs:
            raise ConfigError("runs", "cannot be given beside experiment, which has its own runs")
        check_folder("output", self.output)


_REPORT_HELP = """\
Write one HTML page of what was measured: claims with verdicts and the commands that make them,
figures that answer to mouse and keyboard with the numbers behind each, comparisons, scaling laws,
training curves, the settings in which runs differ, and what they were made with.

  python run.py action=report
  python run.py action=report experiment=fig03
  python run.py action=report 'runs=[runs/A,runs/linear-*]' output=PATH

Settings, with their defaults:
{settings}
The page loads nothing from elsewhere. Nothing is trained or measured for it; figures of results
that have not changed are taken from the last report (<folder>/report_cache).
"""


def report(words: Sequence[str]) -> int:
    """Run `action=report`; returns the exit code."""
    rest = [word for word in words if word != "action=report"]
    help_text = _REPORT_HELP.format(settings=described(ReportSettings))

    def write(settings: ReportSettings) -> str:
        from .report.page import write_report

        return write_report(settings)

    return run_command("run.py", ReportSettings, rest, lambda: help_text, write)
