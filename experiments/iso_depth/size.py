"""Whether the largest model of an iso-depth grid fits into memory. No torch here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reloop.conf.checks.sizes import check_training_size
from reloop.conf.schema import Config, LoopsConfig, ModelConfig, TaskConfig, TrainingConfig

if TYPE_CHECKING:
    from .settings import IsoDepthSettings

# Keys of a run's configuration: the settings' names.
_NAMES = {
    **{"task.dims": "dims", "task.points": "points", "model.n_positions": "points"},
    **{"model.n_embd": "widths", "model.n_head": "heads", "model.n_layer": "depth"},
    **{"loops.b": "r", "loops.T": "r", "training.batch_size": "batch_size"},
}


def check_size(settings: IsoDepthSettings) -> None:
    """Raises ConfigError, naming the setting responsible, if a step of the widest and deepest model
    needs more memory than the machine has."""
    config = Config(
        task=TaskConfig("linear", dims=settings.dims, points=settings.points),
        model=ModelConfig(
            n_layer=settings.depth // min(settings.r),
            n_embd=max(settings.widths),
            n_head=settings.heads,
            n_positions=settings.points,
            prelude=1,
            coda=1,
        ),
        loops=LoopsConfig(b=min(settings.r), T=1, grad_loops="all"),
        training=TrainingConfig(batch_size=settings.batch_size),
        device="cpu",
    )
    check_training_size(config, _NAMES)
