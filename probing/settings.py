"""What `python -m probing` may be asked for. No torch here."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from conf.mistakes import ConfigError, check_count, check_seed


@dataclass(frozen=True)
class ProbingSettings:
    """How the states of a run are probed; the defaults take minutes at the small scale, the paper
    trained for 10,000 steps or more on batches of 1280 prompts."""

    run: str = ""
    targets: tuple[str, ...] = ("gradient", "least_squares")
    protocol: Literal["paper", "reference"] = "paper"
    loops: int | None = None  # how far the probed loops go; none: b
    steps: int = 1000
    batch_size: int = 128
    learning_rate: float | None = None  # none: the protocol's
    seeds: int = 2  # probes of each kind, from different initial weights
    prompts: int = 1280  # that the probes are tested on
    seed: int = 0
    resamples: int = 1000  # of the bootstrap
    control: bool = True  # probes trained with w = 1 too, where the task has that
    memory: int = 512  # MiB, about, that states in the making may take; the probes come on top
    device: str = "auto"

    def check(self) -> None:
        """Raises ConfigError for the first setting that cannot be."""
        if not self.run:
            raise ConfigError("run", "must name the run folder to probe: run=runs/<name>")
        if not self.targets:
            raise ConfigError("targets", "must hold at least one target")
        for name in ("steps", "batch_size", "seeds", "resamples", "memory"):
            check_count(name, getattr(self, name), 1)
        check_count("prompts", self.prompts, 2)
        check_seed("seed", self.seed)
        if self.loops is not None:
            check_count("loops", self.loops, 1)
        rate = self.learning_rate
        if rate is not None and not (math.isfinite(rate) and rate > 0):
            raise ConfigError("learning_rate", f"must be above 0, got {rate}")
