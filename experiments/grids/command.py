"""`python run.py -m …`: many runs of one command. No torch here.

settings, words = grid_settings(["task=linear", "seed=0,1", "jobs=4"])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from looplab.conf.checks.folders import check_folder
from looplab.conf.checks.processes import refuse_torchrun
from looplab.conf.command import answered
from looplab.conf.compose import commands
from looplab.conf.help import help_text
from looplab.conf.mistakes import ConfigError
from looplab.conf.setting import check_settings, setting
from looplab.conf.words import settings_from_words

FLAGS = ("-m", "--multirun")


@dataclass(frozen=True)
class EngineSettings:
    """What starts the processes; but for `name`, what each task of a Slurm job array gets."""

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
    """How the runs of a grid are carried out."""

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
        if self.engine.name == "local" and (self.engine != EngineSettings()):
            changed = vars(self.engine).items() - vars(EngineSettings()).items()
            raise ConfigError(f"engine.{min(changed)[0]}", "is for engine=slurm")


def is_of_grid(word: str) -> bool:
    """Whether a word sets something of the grid as a whole."""
    return word.partition("=")[0].partition(".")[0] in GridSettings.__dataclass_fields__


def grid_settings(words: Sequence[str]) -> tuple[GridSettings, list[str]]:
    """The settings of a grid, and the words of its runs. Raises ConfigError for a mistake in one of
    the former."""
    own = [_listed(word) for word in words if is_of_grid(word)]
    settings = settings_from_words(GridSettings, own)
    settings.check()
    return settings, [word for word in words if not is_of_grid(word)]


def _listed(word: str) -> str:
    """`devices=0,1` as `devices=[0,1]`, and `engine=slurm` as `engine.name=slurm`."""
    key, _, value = word.partition("=")
    if key == "engine":
        return f"engine.name={value}"
    return f"{key}=[{value}]" if key == "devices" and value and value[0] != "[" else word


def is_for_grid(words: Sequence[str]) -> bool:
    """Whether run.py's words are for this command."""
    return bool({*FLAGS} & set(words))


def check_single(words: Sequence[str]) -> None:
    """Raises ConfigError where the words of a single run set something of a grid."""
    for word in words:
        if is_of_grid(word):
            raise ConfigError(word.partition("=")[0], "is for the runs of a grid: run.py -m …")


def main(words: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    if {"-h", "--help"} & set(words):
        print(help_text(), end="")
        return 0
    given = [word for word in words if word not in FLAGS]
    stop_message = "stopped, with every training saved; the same command resumes"
    return answered("run.py", lambda: _run(given), stop_message, in_processes=True)


def _run(words: Sequence[str]) -> int:
    refuse_torchrun("a grid (-m)")
    settings, own = grid_settings(words)
    members = commands(own, multirun=True)
    for member in members:
        if member.action != "train":
            raise ConfigError("action", f"cannot be {member.action} for a grid (-m), which trains")
        if settings.devices and member.config.device not in ("auto", "cuda"):
            problem = f"has no meaning with device={member.config.device}"
            raise ConfigError("devices", problem)
        check_folder("folder", member.config.folder)
    from .grid import run_grid  # imports torch

    return run_grid(members, settings)
