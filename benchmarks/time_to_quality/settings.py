"""What `python -m benchmarks.time_to_quality` may be asked for. No torch here."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from reloop.conf.checks.folders import check_folder
from reloop.conf.groups import choices
from reloop.conf.mistakes import ConfigError, check_choice, check_names


@dataclass(frozen=True)
class QualitySettings:
    """Which recipes are compared on what, and how their errors are measured."""

    task: str = "sparse_linear"
    scale: str = "small"
    model: str = "looped"
    recipes: tuple[str, ...] = ("paper", "fast")
    variants: tuple[str, ...] = ()  # settings of run.py added to each recipe, a row for each
    seeds: int = 3
    first_seed: int = 0
    target: float | None = None  # none: that of targets.json
    k: tuple[int, ...] = ()  # numbers of examples over which errors are averaged; none: the same
    prompts: int = 1280
    measurements: int = 20  # in the course of a training
    to_end: bool = False  # train on after the target is reached
    shifts: bool = True  # measure finished trainings on shifted inputs too
    clock: Literal["cpu_seconds", "seconds"] = "cpu_seconds"  # of the ratio: seconds on a GPU
    threads: int = 1  # of a training
    jobs: int = 1  # trainings at once; seconds are those of a machine that has nothing else to do
    folder: str = "runs/time_to_quality"

    def check(self) -> None:
        """Raises ConfigError for the first setting that cannot be."""
        for name in ("task", "scale", "model"):
            check_choice(name, getattr(self, name), choices(name))
        check_names("", self)
        for name in ("recipes", "variants", "k"):
            values = getattr(self, name)
            if len(set(values)) < len(values):
                raise ConfigError(name, "holds the same twice")
        if not self.recipes:
            raise ConfigError("recipes", "must hold at least one")
        for recipe in self.recipes:
            check_choice("recipes", recipe, choices("recipe"))
        ones = ("seeds", "measurements", "threads", "jobs")
        for name, least in (*((name, 1) for name in ones), ("prompts", 2), ("first_seed", 0)):
            if getattr(self, name) < least:
                raise ConfigError(name, f"must be at least {least}, got {getattr(self, name)}")
        if self.target is not None and not (math.isfinite(self.target) and self.target > 0):
            raise ConfigError("target", f"must be above 0 and finite, got {self.target}")
        if self.k and min(self.k) < 0:
            raise ConfigError("k", f"must hold numbers from 0 on, got {min(self.k)}")
        check_folder("folder", self.folder)
