"""The settings of `python -m probing`. No torch here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from looplab.conf.checks.folders import check_folder
from looplab.conf.checks.model import check_has_states
from looplab.conf.mistakes import ConfigError, check_device
from looplab.conf.plugins import load_plugins
from looplab.conf.saved import read_config
from looplab.conf.schema import FigureSettings, TableSettings
from looplab.conf.setting import check_settings, setting

_HIDDEN = 64  # of a probe


@dataclass(frozen=True)
class ProbingSettings:
    """How the states of a run are probed. The defaults take minutes at the small scale; the paper
    trains for 10,000 steps or more on batches of 1280 prompts."""

    run: str = setting("", "the run folder to probe")
    targets: tuple[str, ...] = setting(("gradient", "least_squares"), "what probes predict")
    protocol: Literal["paper", "reference"] = setting("paper", "as in the paper, or in its code")
    loops: int | None = setting(
        None, "how far the probed loops go; null: b, or all layers", at_least=1
    )
    steps: int = setting(1000, "updates of the probes", at_least=1)
    batch_size: int = setting(128, "prompts in a step", at_least=1)
    learning_rate: float | None = setting(None, "Adam's rate; null: the protocol's", above=0)
    seeds: int = setting(2, "probes of each kind, from different initial weights", at_least=1)
    prompts: int = setting(1280, "prompts that the probes are tested on", at_least=2)
    seed: int = setting(0, "of the prompts and the probes' weights", at_least=0)
    resamples: int = setting(1000, "of the bootstrap", at_least=1)
    control: bool = setting(True, "train probes with w = 1 too, where the task has that")
    memory: int = setting(512, "MiB, about, for states; the probes come on top", at_least=1)
    plugins: tuple[str, ...] = setting((), "Python files that register targets of your own")
    device: str = setting("auto", "auto, cpu, cuda, cuda:1 or mps", check=check_device)
    figures: FigureSettings = FigureSettings()
    tables: TableSettings = TableSettings()

    def check(self) -> None:
        """Raises ConfigError for the first invalid setting."""
        if not self.run:
            raise ConfigError("run", "must name the run folder to probe: run=runs/<name>")
        if not self.targets:
            raise ConfigError("targets", "must hold at least one target")
        check_settings("", self)
        load_plugins(self.plugins)
        config = read_config(Path(self.run))
        check_has_states(config.model)
        if config.task.is_text:
            raise ConfigError("run", "is a language model: probes read what is known of pairs")
        check_folder("run", self.run)
