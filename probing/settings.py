"""What `python -m probing` may be asked for. No torch here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from reloop.conf.checks.folders import check_folder
from reloop.conf.checks.sizes import check_bytes
from reloop.conf.mistakes import ConfigError, check_count, check_device, check_seed
from reloop.conf.saved import read_config
from reloop.conf.schema import Config

_STARTED = 400 * 2**20  # bytes of a process
_HIDDEN = 64  # of a probe


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
        check_device("device", self.device)
        if self.loops is not None:
            check_count("loops", self.loops, 1)
        rate = self.learning_rate
        if rate is not None and not (math.isfinite(rate) and rate > 0):
            raise ConfigError("learning_rate", f"must be above 0, got {rate}")
        self._check_size(read_config(Path(self.run)))
        check_folder("run", self.run)

    def _check_size(self, config: Config) -> None:
        """Every layer has probes of each target, length and seed, with their gradients and Adam's
        moments, and as many again for a control; the prompts are drawn at once, with their targets
        and what the bootstrap makes of them."""
        b = config.model.n_layer if config.model.family == "standard" else config.loops.b
        width, points, dims = config.model.n_embd, config.task.points, config.task.dims
        probes = len(self.targets) * points * (2 if self.control else 1)

        def needs(s: Mapping[str, int]) -> int:
            learned = 16 * probes * s["seeds"] * (s["loops"] + 1) * _HIDDEN * (width + dims)
            drawn = 24 * max(s["prompts"], s["batch_size"]) * points * dims
            resampled = 8 * s["resamples"] * (2 * s["prompts"] + points * (s["loops"] + 1))
            return _STARTED + learned + drawn + resampled

        names = ("seeds", "prompts", "batch_size", "resamples")
        loops = b if self.loops is None else self.loops
        check_bytes(needs, {name: getattr(self, name) for name in names} | {"loops": loops}, "it")
