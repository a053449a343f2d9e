"""The settings of `python -m probing` and `python -m probing.dynamics`. No torch here."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from looplab.conf.checks.model import check_has_states
from looplab.conf.checks.reach import check_reach
from looplab.conf.mistakes import ConfigError, check_device
from looplab.conf.plugins import load_plugins
from looplab.conf.saved import read_config
from looplab.conf.schema import (
    Config,
    EvaluationConfig,
    FigureSettings,
    TableSettings,
    TrainingConfig,
)
from looplab.conf.setting import check_settings, setting


@dataclass(frozen=True)
class ProbingSettings:
    """The way in which the states of a run are probed. The defaults take minutes at the small
    scale; the paper trains for 10,000 steps or more on batches of 1280 prompts."""

    run: str = setting("", "the run folder to probe")
    targets: tuple[str, ...] | None = setting(
        None, "what probes predict; null: gradient, and least_squares or, of curves, ridge"
    )
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
    device: str = setting("auto", "auto, cpu, cuda or cuda:1", check=check_device)
    figures: FigureSettings = FigureSettings()
    tables: TableSettings = TableSettings()

    def check(self) -> None:
        """Raises ConfigError for the first invalid setting."""
        if self.targets == ():
            raise ConfigError("targets", "must hold at least one target")
        config = _config_of(self, self.plugins)
        if config.task.is_text:
            raise ConfigError("run", "is a language model: probes read what is known of pairs")
        # Probes are trained, not the model: none of its activations are kept, as if recomputed.
        training = TrainingConfig(steps=self.steps, batch_size=self.batch_size, recompute=True)
        _check_reach(replace(config, training=training), self, self.resamples)


@dataclass(frozen=True)
class DynamicsSettings:
    """The run folder, and how many loops and prompts are measured."""

    run: str = setting("", "the run folder")
    loops: int | None = setting(
        None, "how many are followed; null: max(100, 5 b), or a standard model's layers", at_least=2
    )
    prompts: int = setting(64, "prompts whose states are followed", at_least=2)
    seed: int = setting(2024, "of prompts, resamples and the start of power iteration", at_least=0)
    device: str = setting("auto", "auto, cpu, cuda or cuda:1", check=check_device)
    figures: FigureSettings = FigureSettings()
    tables: TableSettings = TableSettings()

    def check(self) -> None:
        """Raises ConfigError for the first invalid setting."""
        _check_reach(_config_of(self), self)


def _check_reach(
    config: Config, settings: ProbingSettings | DynamicsSettings, resamples: int = 1
) -> None:
    """Raises ConfigError for what is beyond this machine, by the setting's name here."""
    asked = EvaluationConfig(prompts=settings.prompts, loops=settings.loops, resamples=resamples)
    try:
        check_reach(replace(config, evaluation=asked))
    except ConfigError as error:
        problem = str(error).removeprefix(f"{error.key} ")
        raise ConfigError(error.key.rpartition(".")[2], problem) from None


def _config_of(
    settings: ProbingSettings | DynamicsSettings, plugins: tuple[str, ...] = ()
) -> Config:
    """The configuration of the settings' run, a model with states. Raises ConfigError for the first
    invalid setting."""
    if not settings.run:
        raise ConfigError("run", "must name the run folder: run=runs/<name>")
    check_settings("", settings)
    load_plugins(plugins)  # a run may be of a task of theirs
    config = read_config(Path(settings.run))
    check_has_states(config.model)
    return config
