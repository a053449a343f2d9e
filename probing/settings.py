"""The settings of `python -m probing`. No torch here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from reloop.conf.checks.folders import check_folder
from reloop.conf.checks.language import is_text
from reloop.conf.checks.model import check_has_states
from reloop.conf.checks.sizes import check_bytes
from reloop.conf.mistakes import ConfigError, check_device
from reloop.conf.output import FigureSettings, TableSettings
from reloop.conf.plugins import load_plugins
from reloop.conf.saved import read_config
from reloop.conf.schema import Config
from reloop.conf.setting import check_settings, setting

_PROCESS_BYTES = 400 * 2**20
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
        if is_text(config.task):
            raise ConfigError("run", "is a language model: probes read what is known of pairs")
        self._check_size(config)
        check_folder("run", self.run)

    def _check_size(self, config: Config) -> None:
        """Memory: every layer has probes of each target, length and seed, with gradients and Adam's
        moments, and as many again for a control; all prompts, targets and resamples are in memory
        at once."""
        b = config.model.n_layer if config.model.family == "standard" else config.loops.b
        width, points, dims = config.model.n_embd, config.task.points, config.task.dims
        probes = len(self.targets) * points * (2 if self.control else 1)

        def needs(s: Mapping[str, int]) -> int:
            probe_bytes = 16 * probes * s["seeds"] * (s["loops"] + 1) * _HIDDEN * (width + dims)
            prompt_bytes = 24 * max(s["prompts"], s["batch_size"]) * points * dims
            resample_bytes = 8 * s["resamples"] * (2 * s["prompts"] + points * (s["loops"] + 1))
            return _PROCESS_BYTES + probe_bytes + prompt_bytes + resample_bytes

        names = ("seeds", "prompts", "batch_size", "resamples")
        loops = b if self.loops is None else self.loops
        check_bytes(needs, {name: getattr(self, name) for name in names} | {"loops": loops}, "it")
