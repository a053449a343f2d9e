"""The settings of experiments, of grids, of the processes that carry them out, and of reports. No
torch here."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from looplab.conf.checks.folders import check_folder
from looplab.conf.checksum import key_of
from looplab.conf.mistakes import ConfigError, check_device
from looplab.conf.schema import Config, FigureSettings, TableSettings
from looplab.conf.setting import check_settings, setting

from .claims import claims_of
from .definition import Experiment, Member, load, members_of, names

ALL = ("all",)
ALL_LANGUAGE = ("all_language",)


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
    seeds: int | None = setting(
        None, "of each training; null: the experiment's", at_least=1, at_most=1000
    )
    first_seed: int = setting(
        0, "the lowest of them; another one asks the claims of fresh runs", at_least=0
    )
    jobs: int | None = setting(
        None, "processes that train at once; null: one a core, one on a GPU", at_least=1
    )
    text: str = setting(
        "", "of language experiments, as task.text; empty: the novels that come with the project"
    )
    folder: str = setting(Config.folder, "where run folders are made")
    device: str = setting("auto", "auto, cpu, cuda or cuda:1", check=check_device)
    figures: FigureSettings = FigureSettings()
    tables: TableSettings = TableSettings()

    def check(self) -> None:
        """Raises ConfigError for the first invalid setting, an unknown experiment, a claim that
        cannot be read, and a scale that one has no settings for."""
        if not self.experiment:
            raise ConfigError("experiment", "must name an experiment: experiment=fig10, or all")
        check_settings("", self)
        experiments = self.experiments
        if self.text and not any(each.reads_text(self.scale) for each in experiments):
            raise ConfigError("text", f"has no meaning for {', '.join(self.experiment)}")
        for experiment in experiments:
            # Composes every run: a mistake in one is said before anything is trained.
            self.members(experiment)
            claims_of(experiment)
            asked = "seeds" if self.seeds else "first_seed" if self.first_seed else ""
            if asked and not self.is_all and not experiment.at(self.scale).runs:
                problem = "which trains no runs of its own"
                raise ConfigError(asked, f"has no meaning for {experiment.name}, {problem}")
        check_folder("folder", self.folder)

    @property
    def experiments(self) -> list[Experiment]:
        """The named experiments; for `all`, those on functions in context that have settings at the
        scale, and for `all_language` those on texts."""
        if not self.is_all:
            return [load(word) for word in dict.fromkeys(self.experiment)]
        on_texts = self.experiment == ALL_LANGUAGE
        experiments = []
        for experiment in map(load, names()):
            if self.scale in experiment.scales and experiment.reads_text(self.scale) == on_texts:
                experiments.append(experiment)
        return experiments

    @property
    def is_all(self) -> bool:
        """Says whether all experiments of a kind are asked for."""
        return self.experiment in (ALL, ALL_LANGUAGE)

    def members(self, experiment: Experiment) -> list[Member]:
        """The trainings of one of them."""
        return members_of(
            experiment,
            self.scale,
            self.folder,
            self.seeds,
            self.device,
            self.text,
            first_seed=self.first_seed,
        )

    def command(self, experiment: Experiment) -> str:
        """The command that makes one of them as asked."""
        seeds, text = self._changed(experiment)
        first_seed = self._first_seed(experiment)
        command = f"python run.py experiment={experiment.word} scale={self.scale}"
        if seeds:
            command += f" seeds={seeds}"
        if first_seed:
            command += f" first_seed={first_seed}"
        if text:
            command += f" {shlex.quote(f'text={text}')}"
        return command

    def result_folder(self, experiment: Experiment | str) -> Path:
        """The folder in which the result of one of them is kept, or what is called by a name; a
        folder of its own for seeds that are not the experiment's, and for a text."""
        if isinstance(experiment, str):
            name = experiment
            seeds = self.seeds
            text = self.text
            first_seed = self.first_seed
        else:
            name = experiment.name
            seeds, text = self._changed(experiment)
            first_seed = self._first_seed(experiment)
        name += f"-{self.scale}"
        if seeds:
            name += f"-{seeds}-seed{'s' * (seeds > 1)}"
        if first_seed:
            name += f"-from-seed-{first_seed}"
        if text:
            path = Path(text).absolute()
            stem = re.sub(r"[^A-Za-z0-9]+", "_", path.stem)
            name += f"-on-{stem}-{key_of(str(path))[:4]}"  # two texts may have one name
        return Path(self.folder) / "experiments" / name

    def _changed(self, experiment: Experiment) -> tuple[int | None, str]:
        """The number of seeds asked for, None where that is the experiment's own or it trains no
        runs; and the text, empty for an experiment without texts."""
        at_scale = experiment.at(self.scale)
        seeds = self.seeds if at_scale.runs and self.seeds != at_scale.seeds else None
        return seeds, self.text if experiment.reads_text(self.scale) else ""

    def _first_seed(self, experiment: Experiment) -> int:
        """The lowest seed; 0 for an experiment that trains no runs."""
        return self.first_seed if experiment.at(self.scale).runs else 0


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
        None,
        "processes at once; null: one a core, one on a GPU or one for each of devices",
        at_least=1,
    )
    devices: tuple[int, ...] = setting(
        (),
        "numbers of the CUDA devices that the processes get in turn; none: all see all",
        at_least=0,
    )
    engine: EngineSettings = EngineSettings()

    def check(self) -> None:
        """Raises ConfigError for the first invalid setting."""
        check_settings("", self)
        check_settings("engine.", self.engine)
        if self.engine.name == "slurm" and self.devices:
            problem = "has no meaning with engine=slurm; engine.gpus= says how many"
            raise ConfigError("devices", problem)
        if self.engine.name == "slurm":
            return
        for key, value in vars(self.engine).items():
            if value != getattr(EngineSettings, key):
                raise ConfigError(f"engine.{key}", "is for engine=slurm")
