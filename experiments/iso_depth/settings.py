"""The settings of `python -m experiments.iso_depth`. No torch here."""

from __future__ import annotations

import re
from dataclasses import dataclass

from looplab.conf.checks.config import check_size
from looplab.conf.checks.folders import check_folder
from looplab.conf.command import as_word
from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import (
    Config,
    CurriculumConfig,
    EvaluationConfig,
    FigureSettings,
    GrowthConfig,
    LoopsConfig,
    ModelConfig,
    TableSettings,
    TaskConfig,
    TrainingConfig,
)
from looplab.conf.setting import check_settings, setting

_WARMUP = 100  # steps in which the rate rises; then it falls to zero at the last one
_PROMPTS = 4096  # of the evaluation
# Keys of a run's configuration: the settings that they are made of.
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
    """The models, the task, the trainings, and the bootstrap of the intervals."""

    r: tuple[int, ...] = setting((1, 2, 4, 8), "recurrences", at_least=1)
    widths: tuple[int, ...] = setting((24, 32, 48), "widths of the models", at_least=1)
    steps: tuple[int, ...] = setting((750, 1500, 3000), "of each training", at_least=1)
    depth: int = setting(8, "layers run, those before and after the loop aside", at_least=1)
    heads: int = setting(2, "attention heads", at_least=1)
    dims: int = setting(3, "dimensions of x", at_least=1)
    points: int = setting(8, "pairs in a prompt", at_least=2)
    batch_size: int = setting(64, "prompts in a step", at_least=1)
    learning_rate: float = setting(3e-3, "at the first step after the warm-up", above=0)
    seed: int = setting(0, "of training", at_least=0)
    resamples: int = setting(200, "of the bootstrap", at_least=20)
    jobs: int | None = setting(None, "processes at once; null: one a core", at_least=1)
    folder: str = setting("runs", "where run folders are made")
    figures: FigureSettings = FigureSettings()
    tables: TableSettings = TableSettings()

    def check(self) -> None:
        """Raises ConfigError for the first invalid setting."""
        for name in ("r", "widths", "steps"):
            values = getattr(self, name)
            if not values:
                raise ConfigError(name, "must hold at least one")
            if len(set(values)) < len(values):
                raise ConfigError(name, f"holds a number twice: {', '.join(map(str, values))}")
        check_settings("", self)
        self._check_divisors()
        largest = self.config(max(self.steps), max(self.widths), min(self.r))
        try:
            check_size(largest)
        except ConfigError as error:
            raise in_settings(error) from None
        check_folder("folder", self.folder)

    def config(self, steps: int, width: int, r: int) -> Config:
        """The configuration of one run."""
        warmup = min(_WARMUP, steps // 4)
        return Config(
            task=TaskConfig("linear", dims=self.dims, points=self.points),
            model=ModelConfig(
                n_layer=self.depth // r,
                n_embd=width,
                n_head=self.heads,
                n_positions=self.points,
                injection="none" if r == 1 else "concat",
                prelude=1,
                coda=1,
            ),
            loops=LoopsConfig(b=r, T=1, grad_loops="all"),
            curriculum=CurriculumConfig(loops=GrowthConfig(start=r)),
            training=TrainingConfig(
                steps=steps,
                batch_size=self.batch_size,
                learning_rate=self.learning_rate,
                warmup=warmup,
                decay=1 - warmup / steps,
                clip=1.0,
            ),
            evaluation=EvaluationConfig(
                prompts=_PROMPTS, batch_size=512, max_loops=r, baselines=("bayes",), resamples=200
            ),
            seed=self.seed,
            device="cpu",  # models this small are fastest with one core each
            folder=self.folder,
            figures=self.figures,
        )

    def _check_divisors(self) -> None:
        """Of two settings that do not match, the error names the one that is not the default."""
        for r in self.r:
            if self.depth % r:
                if self.r == IsoDepthSettings.r:
                    problem = f"must be a multiple of each of r={as_word(self.r)}, got {self.depth}"
                    raise ConfigError("depth", problem)
                raise ConfigError("r", f"must divide depth={self.depth}, got {r}")
        for width in self.widths:
            if width % self.heads:
                if self.widths == IsoDepthSettings.widths:
                    problem = f"must divide each of widths={as_word(self.widths)}, got {self.heads}"
                    raise ConfigError("heads", problem)
                raise ConfigError("widths", f"must be multiples of heads={self.heads}, got {width}")


def in_settings(error: ConfigError) -> ConfigError:
    """The error of a run's configuration as one of the settings that it was made of."""
    message = _ANY.sub(lambda match: _NAMES[match[0]], str(error))
    key, _, problem = message.partition(" ")
    return ConfigError(key, problem)
