"""What `python -m experiments.iso_depth` may be asked for. No torch here."""

from __future__ import annotations

import re
from dataclasses import dataclass

from reloop.conf.checks.folders import check_folder
from reloop.conf.command import as_word
from reloop.conf.mistakes import ConfigError, check_seed

from .size import check_size

# What a run's configuration calls what these settings say.
_NAMES = {
    "model.n_embd": "widths",
    "model.n_head": "heads",
    "model.n_layer": "depth",
    "model.n_positions": "points",
    "task.dims": "dims",
    "task.points": "points",
    "loops.b": "r",
    "curriculum.loops.start": "r",
    "evaluation.max_loops": "r",
    "training.steps": "steps",
    "training.warmup": "steps",
    "training.decay": "steps",
    "training.batch_size": "batch_size",
    "training.learning_rate": "learning_rate",
}
_ANY = re.compile("|".join(rf"\b{re.escape(name)}\b" for name in sorted(_NAMES, reverse=True)))


@dataclass(frozen=True)
class IsoDepthSettings:
    """Which models on which task for how long, and how intervals are found."""

    r: tuple[int, ...] = (1, 2, 4, 8)
    widths: tuple[int, ...] = (24, 32, 48)
    steps: tuple[int, ...] = (750, 1500, 3000)
    depth: int = 8  # layers run, those before and after the loop aside
    heads: int = 2
    dims: int = 3
    points: int = 8
    batch_size: int = 64
    learning_rate: float = 3e-3  # at the first step after the warm-up
    seed: int = 0  # of training
    resamples: int = 200
    jobs: int | None = None
    folder: str = "runs"

    def check(self) -> None:
        """Raises ConfigError for the first setting that cannot be."""
        for name in ("r", "widths", "steps"):
            values = getattr(self, name)
            if not values:
                raise ConfigError(name, "must hold at least one")
            if len(set(values)) < len(values):
                raise ConfigError(name, f"holds a number twice: {', '.join(map(str, values))}")
            if min(values) < 1:
                raise ConfigError(name, f"must hold numbers of at least 1, got {min(values)}")
        ones = ("depth", "heads", "dims", "batch_size")
        for name, least in (*((name, 1) for name in ones), ("points", 2), ("resamples", 20)):
            self._at_least(name, least)
        check_seed("seed", self.seed)
        if self.jobs is not None:
            self._at_least("jobs", 1)
        self._check_divisors()

    def _check_divisors(self) -> None:
        """Of two settings that do not go together, names the one that is not its default."""
        for r in self.r:
            if self.depth % r:
                if self.r == IsoDepthSettings.r:
                    every = f"must be a multiple of each of r={as_word(self.r)}, got {self.depth}"
                    raise ConfigError("depth", every)
                raise ConfigError("r", f"must divide depth={self.depth}, got {r}")
        for width in self.widths:
            if width % self.heads:
                if self.widths == IsoDepthSettings.widths:
                    every = f"must divide each of widths={as_word(self.widths)}, got {self.heads}"
                    raise ConfigError("heads", every)
                raise ConfigError("widths", f"must be multiples of heads={self.heads}, got {width}")
        check_size(self)
        check_folder("folder", self.folder)

    def _at_least(self, name: str, least: int) -> None:
        if getattr(self, name) < least:
            raise ConfigError(name, f"must be at least {least}, got {getattr(self, name)}")


def in_settings(error: ConfigError) -> ConfigError:
    """A mistake in a run's configuration as one in the settings that it was made of."""
    own = _ANY.sub(lambda found: _NAMES[found[0]], str(error))
    key, _, problem = own.partition(" ")
    return ConfigError(key, problem)
