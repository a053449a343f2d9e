"""The settings of `python -m benchmarks.time_to_quality`, and the target errors by scale and task.
No torch here."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from looplab.conf.checks.folders import check_folder
from looplab.conf.groups import choices
from looplab.conf.mistakes import ConfigError, check_choice
from looplab.conf.setting import check_settings, setting

_FILE = Path(__file__).with_name("targets.json")


@dataclass(frozen=True)
class QualitySettings:
    """The recipes to compare, the task and model, and how errors are measured."""

    task: str = setting("sparse_linear", "the task")
    scale: str = setting("small", "the scale")
    model: str = setting("looped", "the model")
    recipes: tuple[str, ...] = setting(("paper", "fast"), "the recipes to compare")
    variants: tuple[str, ...] = setting((), "settings added to each recipe, a row for each")
    seeds: int = setting(3, "trainings of each row", at_least=1)
    target: float | None = setting(None, "the error to reach; null: see targets.json", above=0)
    k: tuple[int, ...] = setting(
        (), "numbers of examples over which errors are averaged; none: see targets.json", at_least=0
    )
    prompts: int = setting(1280, "prompts that errors are measured on", at_least=2)
    measurements: int = setting(20, "in the course of a training", at_least=1)
    to_end: bool = setting(False, "train on after the target is reached")
    threads: int = setting(1, "of each training", at_least=1)
    jobs: int = setting(1, "trainings at once", at_least=1)
    folder: str = setting("runs/time_to_quality", "where runs and results are kept")

    @property
    def groups(self) -> list[str]:
        """The words for run.py that choose task, scale and model."""
        return [f"{name}={getattr(self, name)}" for name in ("task", "scale", "model")]

    def check(self) -> None:
        """Raises ConfigError for the first invalid setting."""
        for name in ("task", "scale", "model"):
            check_choice(name, getattr(self, name), choices(name))
        check_settings("", self)
        if not self.recipes:
            raise ConfigError("recipes", "must hold at least one")
        for recipe in self.recipes:
            check_choice("recipes", recipe, choices("recipe"))
        check_folder("folder", self.folder)


class Target(NamedTuple):
    """An error over the variance of y (or an error rate), averaged over numbers of examples k."""

    error: float
    k: tuple[int, ...]

    @property
    def at(self) -> str:
        """The numbers of examples, as in 'k = 2, 4'."""
        return f"k = {', '.join(map(str, self.k))}"


def known_targets() -> dict[tuple[str, str], Target]:
    """The targets of targets.json by scale and task."""
    mapping = json.loads(_FILE.read_text(encoding="utf-8"))
    return {
        (scale, task): Target(float(entry["error"]), tuple(entry["k"]))
        for scale, tasks in mapping.items()
        for task, entry in tasks.items()
    }


def target_of(settings: QualitySettings) -> Target:
    """The target of a race; ConfigError if neither settings nor file give one."""
    default = known_targets().get((settings.scale, settings.task))
    error = settings.target if settings.target is not None else default and default.error
    k = settings.k or (default and default.k)
    if error is None or not k:
        name = "target" if error is None else "k"
        suffix = f"for task={settings.task} at scale={settings.scale}"
        raise ConfigError(name, f"must be given: targets.json has none {suffix}")
    return Target(error, tuple(k))


def targets_table() -> str:
    """The targets of targets.json, one line each."""
    return "\n".join(
        f"  {scale:7} {task:15} {target.error:<8g} at {target.at}"
        for (scale, task), target in known_targets().items()
    )
