"""The settings of a grid as a whole, beside those of its runs. No torch here.

settings, words = grid_settings(["task=linear", "seed=0,1", "jobs=4"])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from reloop.conf.mistakes import ConfigError
from reloop.conf.setting import check_settings, setting
from reloop.conf.words import settings_from_words


@dataclass(frozen=True)
class EngineSettings:
    """What starts the processes; but for `name`, what each task of a Slurm job array gets."""

    name: Literal["local", "slurm"] = setting(
        "local", "local: this machine; slurm: a job array; engine=slurm for short"
    )
    partition: str = setting("", "Slurm's partition; empty: its default")
    account: str = setting("", "the account that pays; empty: the default")
    minutes: int = setting(
        60, "of a task; then it saves, goes back into Slurm's line, and goes on", at_least=1
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
        None, "processes at once; null: one a core, one on a GPU or one for each of devices",
        at_least=1,
    )  # fmt: skip
    on_failure: Literal["continue", "stop"] = setting(
        "continue", "what happens to the other runs when one fails; stop saves those that train"
    )
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
        if self.engine.name == "local" and (self.engine != EngineSettings()):
            changed = vars(self.engine).items() - vars(EngineSettings()).items()
            raise ConfigError(f"engine.{min(changed)[0]}", "is for engine=slurm")
        for device in self.devices:
            if self.devices.count(device) > 1:
                raise ConfigError("devices", f"holds {device} twice")


KEYS = tuple(GridSettings.__dataclass_fields__)


def is_of_grid(word: str) -> bool:
    """Whether a word sets something of the grid as a whole."""
    return word.partition("=")[0].partition(".")[0] in KEYS


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
