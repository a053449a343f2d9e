"""Several trainers of one shape that make their steps in one computation.

together = Together([Trainer(…) for seed in (0, 1, 2)])
together.update(step)                       # to each what its own update(step) does
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.func import functional_call, vmap

from reloop.conf.schema import Config
from reloop.curricula import Stage
from reloop.models.products import plain_products
from reloop.tasks import Prompts

from ..objective import loss, targets
from ..step import Trainer

# Settings in which the members of a population may differ: each has its own weights, prompts,
# optimiser and average.
_OWN = (
    *("seed", "folder", "device", "wandb", "scale", "recipe", "evaluation"),
    *("training.optimizer", "training.learning_rate", "training.muon_rate", "training.beta1"),
    *("training.beta2", "training.epsilon", "training.weight_decay", "training.clip"),
    *("training.warmup", "training.decay", "training.decay_to", "training.init_std"),
    *("training.position_std", "training.ema_decay"),
)


class Together:
    """Trainers that share task, model's shape, curriculum, batch and steps. Losses and gradients of
    all are taken in one pass over stacked weights; clipping, optimiser, average and totals are each
    trainer's own, so that a member ends where it would have ended alone, up to the rounding of
    batched products, and can go on alone.

    Raises ValueError, naming the setting, for trainers that cannot be trained together.
    """

    def __init__(self, trainers: Sequence[Trainer]) -> None:
        for trainer in trainers[1:]:
            if key := difference(trainers[0].config, trainer.config):
                raise ValueError(f"members of a population cannot differ in {key}")
        if reason := alone(trainers[0].config):
            raise ValueError(reason)
        self.trainers = list(trainers)

    def update(self, step: int) -> None:
        """Make step `step` with every trainer."""
        first = self.trainers[0]
        stage, shards = first.curriculum(step), first.config.training.shards
        for trainer in self.trainers:
            trainer.prepare(step)
            trainer.model.zero_grad(set_to_none=True)
        totals = torch.zeros(len(self.trainers), device=first.device)
        for shard in range(shards):
            losses = self._losses(stage, shard) / shards
            losses.sum().backward()
            totals += losses.detach()
        for trainer, total in zip(self.trainers, totals, strict=True):
            trainer.apply(total)

    def _losses(self, stage: Stage, shard: int) -> Tensor:
        """Each member's loss on a batch of its own, [members]."""
        drawn = [trainer.draw(stage, shard) for trainer in self.trainers]
        kind = self.trainers[0].config.training.targets
        wanted = [
            targets(kind, trainer.task, prompts, stage.dims)
            for trainer, prompts in zip(self.trainers, drawn, strict=True)
        ]
        parameters = [dict(trainer.model.named_parameters()) for trainer in self.trainers]
        stacked = {name: torch.stack([each[name] for each in parameters]) for name in parameters[0]}
        first = self.trainers[0]

        def member(weights: Mapping[str, Tensor], xs: Tensor, ys: Tensor, aims: Tensor) -> Tensor:
            settings = {"grad_loops": stage.grad_loops, "scale_loops": stage.scale_loops}
            asked = (Prompts(xs, ys), stage.loops, stage.window)
            predictions = functional_call(first.model, dict(weights), asked, settings)
            return loss(first.task.loss, predictions, aims)

        with plain_products():
            return vmap(member)(
                stacked,
                torch.stack([prompts.xs for prompts in drawn]),
                torch.stack([prompts.ys for prompts in drawn]),
                torch.stack(wanted),
            )


def difference(first: Config, other: Config) -> str:
    """The first setting in which two configurations differ and members of a population may not; ''
    where there is none."""
    from reloop.conf.build import config_to_mapping, flatten

    ours, theirs = (flatten(config_to_mapping(each)) for each in (first, other))
    for key in ours | theirs:
        own = any(key == name or key.startswith(f"{name}.") for name in _OWN)
        if not own and ours.get(key) != theirs.get(key):
            return key
    return ""


def alone(config: Config) -> str:
    """Why runs of this configuration cannot be trained together; '' where they can."""
    if config.loops.sampling != "none":
        return "loops that are drawn for each step are other ones for each seed"
    return ""
