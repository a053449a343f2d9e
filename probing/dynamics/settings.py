"""The settings of `python -m probing.dynamics`. No torch here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from looplab.conf.checks.folders import check_folder
from looplab.conf.checks.model import check_has_states
from looplab.conf.mistakes import ConfigError, check_device
from looplab.conf.saved import read_config
from looplab.conf.schema import Config, FigureSettings, TableSettings
from looplab.conf.setting import check_settings, setting

_MAX_LOOPS = 1_000_000  # more would take minutes per prompt


@dataclass(frozen=True)
class DynamicsSettings:
    """The run folder, and how many loops and prompts are measured."""

    run: str = setting("", "the run folder")
    loops: int | None = setting(
        None, "how many are followed; null: max(100, 5 b), or a standard model's layers", at_least=2
    )
    prompts: int = setting(64, "prompts whose states are followed", at_least=2)
    seed: int = setting(2024, "of prompts, resamples and the start of power iteration", at_least=0)
    device: str = setting("auto", "auto, cpu, cuda, cuda:1 or mps", check=check_device)
    figures: FigureSettings = FigureSettings()
    tables: TableSettings = TableSettings()

    def check(self) -> None:
        """Raises ConfigError for the first setting that is invalid, or invalid for this run."""
        if not self.run:
            raise ConfigError("run", "must name the run folder to measure: run=runs/<name>")
        check_settings("", self)
        config = read_config(Path(self.run))
        check_has_states(config.model)
        if (loops := self.loops_of(config)) > _MAX_LOOPS:
            raise ConfigError("loops", f"must be at most {_MAX_LOOPS:,}, got {loops}")
        check_folder("run", self.run)

    def loops_of(self, config: Config) -> int:
        """The number of loops (or layers) measured of a run with this configuration. Raises
        ConfigError for more than a standard model's layers, or than the loops that a model with
        lanes has weights for."""
        model, max_loops = config.model, None
        if model.family == "standard":
            max_loops, reason = model.n_layer, f"this standard model has {model.n_layer} layers"
        elif model.lanes:
            max_loops, reason = (
                config.loops.b,
                f"this model has weights of lanes for {config.loops.b}",
            )
        if max_loops is None:
            return self.loops or max(100, 5 * config.loops.b)
        if self.loops is not None and self.loops > max_loops:
            raise ConfigError("loops", f"is {self.loops}, but {reason} and no more")
        return self.loops or max_loops
