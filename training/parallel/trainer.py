"""A trainer of some of a batch's shards, which applies the gradients of all.

The gradients of all shards are gathered and summed in the order of the shards, as one process adds
them up. An all_reduce would need less memory, but its order of summation depends on the number of
processes, and so would the last bits.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from reloop.conf.schema import Config
from reloop.curricula import Curriculum, Stage
from reloop.models import Model
from reloop.tasks import Task

from ..objective import targets
from ..step import Trainer
from .processes import Processes

_VALUES = 4  # of a step's losses, see Losses.values
_ALIGNMENT = 64  # values; as if each gradient had memory of its own, so that norms are summed alike


class ShardedTrainer(Trainer):
    """A Trainer that computes the shards of its process, S/N of the S, and ends each step with the
    weights of a single process with S shards, bit for bit. All processes make the same steps."""

    def __init__(
        self,
        config: Config,
        task: Task,
        curriculum: Curriculum,
        model: Model,
        processes: Processes,
        capture: bool | None = None,
    ) -> None:
        super().__init__(config, task, curriculum, model, capture)
        shards = config.training.shards
        count = shards // processes.size
        self.own = range(processes.rank * count, (processes.rank + 1) * count)
        self.exchange = GradientExchange(self.parameters, shards, len(self.own), processes)

    def _step(self, stage: Stage) -> None:
        shards = self.config.training.shards
        for row, shard in enumerate(self.own):
            self.model.zero_grad(set_to_none=True)
            prompts = self.draw(stage, shard)
            ys = targets(self.config.training.targets, self.task, prompts, stage.dims)
            losses = self.losses(stage, prompts, ys, self.draw_noise(stage, shard))
            (losses.objective / shards).backward()
            self.exchange.keep(row, losses.values() / shards)
        self.apply(self.exchange.sum())


class GradientExchange:
    """The gradients of `shards` shards, `own` of them computed here, in memory that is allocated
    once: neither method waits for a GPU, and both can be captured.

    A shard's row holds the gradient of each parameter, aligned, and the values of its losses. A
    parameter without a gradient has none in any shard, as shards differ in their prompts alone.
    """

    def __init__(
        self, parameters: Sequence[nn.Parameter], shards: int, own: int, processes: Processes
    ) -> None:
        self.parameters, self.processes = parameters, processes
        ends = [0]
        for parameter in parameters:
            ends.append(ends[-1] + -(-parameter.numel() // _ALIGNMENT) * _ALIGNMENT)
        self._starts, width = ends[:-1], ends[-1] + _VALUES
        like = parameters[0].detach()
        self._own = like.new_zeros(own, width)
        self._all = like.new_zeros(shards, width)
        self._sum = like.new_zeros(width)
        self._own_views = [self._views(row) for row in self._own]
        self._sum_views = self._views(self._sum)

    @torch.no_grad()
    def keep(self, row: int, values: Tensor) -> None:
        """Keep the parameters' gradients and the values of the losses [4] of the shard that is
        number `row` here."""
        pairs = [
            (view, parameter.grad)
            for view, parameter in zip(self._own_views[row], self.parameters, strict=True)
            if parameter.grad is not None
        ]
        torch._foreach_copy_([view for view, _ in pairs], [gradient for _, gradient in pairs])
        self._own[row, -_VALUES:].copy_(values)

    @torch.no_grad()
    def sum(self) -> Tensor:
        """Give each parameter with a gradient the sum of those of all shards, in their order; the
        sum of the values of their losses [4]."""
        self.processes.gather(self._all, self._own)
        first, *others = self._all
        self._sum.copy_(first)
        for row in others:
            self._sum.add_(row)
        for view, parameter in zip(self._sum_views, self.parameters, strict=True):
            if parameter.grad is not None:
                parameter.grad = view
        return self._sum[-_VALUES:]

    def _views(self, row: Tensor) -> list[Tensor]:
        return [
            row[start : start + parameter.numel()].view(parameter.shape)
            for start, parameter in zip(self._starts, self.parameters, strict=True)
        ]
