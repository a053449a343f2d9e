"""What `python -m evaluation.iso_depth` may be asked for. No torch here."""

from __future__ import annotations

from dataclasses import dataclass

from conf.mistakes import ConfigError, check_seed

from .iso_depth_size import check_size


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
        for name, least in (("depth", 1), ("points", 2), ("resamples", 20)):
            self._at_least(name, least)
        for name in ("heads", "dims", "batch_size"):
            self._at_least(name, 1)
        check_seed("seed", self.seed)
        if self.jobs is not None:
            self._at_least("jobs", 1)
        for r in self.r:
            if self.depth % r:
                raise ConfigError("r", f"must divide depth={self.depth}, got {r}")
        check_size(self)

    def _at_least(self, name: str, least: int) -> None:
        if getattr(self, name) < least:
            raise ConfigError(name, f"must be at least {least}, got {getattr(self, name)}")
