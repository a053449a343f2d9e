"""Models of one shape trained at once, one for each learning rate and seed, as one computation.

trainer = BatchedTrainer(config, rates=(1e-3, 3e-3), seeds=(0, 1, 2))
for step in range(config.training.steps):
    trainer.update(step)
trainer.reading("loss")                                   # [steps, members], rate by rate
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor
from torch.func import functional_call, vmap
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from reloop.conf.schema import Config
from reloop.tasks import Prompts

from ..assemble import build_model, build_task, step_generator
from ..objective import loss
from ..optim.rates import learning_rate
from ..run_folder.checkpoint import Checkpoint
from .adam import BatchedAdam
from .watched import Watch

# Of each step and member: the loss; the gradient's norm, that of the first layer's MLP, and the
# latter after clipping; the mean length of the stream after the first loop and after the last.
READINGS = ("loss", "gradient", "mlp_gradient", "mlp_clipped", "first_norm", "last_norm")
_FIRST_MLP = ("loop.blocks.0.mlp.", "loop.blocks.0.expand.", "loop.blocks.0.contract.")


def member_config(config: Config, rate: float, seed: int) -> Config:
    """What a member is known by: the configuration of a run of its own, but that it is trained at b
    loops from the first step, whatever the curriculum says."""
    return replace(config, training=replace(config.training, learning_rate=rate), seed=seed)


class BatchedTrainer:
    """Trains by Adam, on the loss of the last loop, with the gradient through all of them: at b
    loops, of all dimensions and points, from the first step, whatever the curriculum says.

    Member `i * len(seeds) + j` has the i-th rate and the j-th seed; it starts from the weights and
    sees the prompts that a run of its own would, so that all rates of a seed see the same. One
    whose loss or gradient is not finite stays what it was, its readings from there on NaN; the
    others do not notice.

    Raises ValueError for a configuration with weight decay, shards, Muon, sampled loops or factored
    residual scaling, whose rates differ by parameter: there are none here.
    """

    def __init__(self, config: Config, rates: tuple[float, ...], seeds: tuple[int, ...]) -> None:
        _refuse_what_is_not_here(config)
        training = config.training
        self.config, self.rates, self.seeds = config, rates, seeds
        self.task = build_task(config)
        models = [build_model(replace(config, seed=seed), self.task) for seed in seeds]
        self.model = models[0]
        drawn = torch.stack([parameters_to_vector(m.parameters()).detach() for m in models])
        self.weights = drawn.repeat(len(rates), 1).requires_grad_()
        self.adam = BatchedAdam(self.weights, training.beta1, training.beta2, training.epsilon)
        members = len(self.weights)
        self.alive = torch.ones(members, dtype=torch.bool)
        self.history = torch.full((training.steps, len(READINGS), members), math.nan)
        self._first_mlp = torch.cat(
            [
                torch.full((p.numel(),), name.startswith(_FIRST_MLP))
                for name, p in self.model.named_parameters()
            ]
        ).to(torch.float32)

    def update(self, step: int) -> None:
        """Make step `step` with every member that is alive."""
        losses, lengths = vmap(self._member)(self._named(), *self._draw(step))
        (gradient,) = torch.autograd.grad(losses.sum(), self.weights)
        self._apply(step, losses.detach(), gradient, lengths)

    def reading(self, name: str) -> Tensor:
        """One of READINGS by step and member, [steps, members]; NaN at steps not made."""
        return self.history[:, READINGS.index(name)]

    @torch.no_grad()
    def errors(self, prompts: Prompts) -> Tensor:
        """Each member's squared error after all loops, mean over prompts and prefixes, over that of
        predicting zero: [members]."""
        found = []
        for weights in self.weights:
            vector_to_parameters(weights.clone(), self.model.parameters())
            predictions = self.model(prompts, self.config.loops.b)
            found.append(loss(self.task.loss, predictions, prompts.ys) / self.task.divisor)
        return torch.stack(found)

    def state(self) -> dict[str, Tensor]:
        """Everything that the next steps depend on, and the readings so far, by name."""
        return {
            "weights": self.weights.detach(),
            "adam.mean": self.adam.mean,
            "adam.square": self.adam.square,
            "alive": self.alive,
            "history": self.history,
        }

    def load(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint of `state`."""
        for name, tensor in self.state().items():
            tensor.copy_(checkpoint.tensors[name])

    def _draw(self, step: int) -> tuple[Tensor, Tensor]:
        """The members' prompts: xs [members, B, n, d] and ys [members, B, n]."""
        points, batch = self.config.task.points, self.config.training.batch_size
        where = self.weights.device
        drawn = [
            self.task.sample(step_generator(seed, step, 0, where), batch, points)
            for seed in self.seeds
        ]
        xs, ys = torch.stack([p.xs for p in drawn]), torch.stack([p.ys for p in drawn])
        return xs.repeat(len(self.rates), 1, 1, 1), ys.repeat(len(self.rates), 1, 1)

    def _named(self) -> dict[str, Tensor]:
        """The weights as the model's parameters, each with the members as its first axis."""
        shapes = {name: p.shape for name, p in self.model.named_parameters()}
        parts = self.weights.split([shape.numel() for shape in shapes.values()], dim=1)
        return {
            name: part.view(-1, *shape)
            for (name, shape), part in zip(shapes.items(), parts, strict=True)
        }

    def _member(
        self, weights: Mapping[str, Tensor], xs: Tensor, ys: Tensor
    ) -> tuple[Tensor, Tensor]:
        """One member's loss, and the lengths of its stream after the first and the last loop."""
        loops = self.config.loops.b
        self.model.run_segment = watch = Watch()
        predictions = functional_call(
            self.model, dict(weights), (Prompts(xs, ys), loops), {"grad_loops": loops}
        )
        assert watch.lengths is not None
        return loss(self.task.loss, predictions, ys), torch.stack(watch.lengths)

    def _apply(self, step: int, losses: Tensor, gradient: Tensor, lengths: Tensor) -> None:
        norm = torch.linalg.vector_norm(gradient, dim=1)
        self.alive &= losses.isfinite() & norm.isfinite()
        alive, clip = self.alive, self.config.training.clip
        # As torch.nn.utils.clip_grad_norm_.
        shrink = (clip / (norm + 1e-6)).clamp(max=1) if clip else torch.ones_like(norm)
        mlp = (gradient.square() @ self._first_mlp).sqrt()
        read = torch.stack((losses, norm, mlp, mlp * shrink, *lengths.T))
        self.history[step] = torch.where(alive, read, math.nan)
        rates = [
            learning_rate(replace(self.config.training, learning_rate=rate), step)
            for rate in self.rates
        ]
        by_member = torch.tensor(rates).repeat_interleave(len(self.seeds))
        self.adam.update(
            step,
            torch.where(alive[:, None], gradient * shrink[:, None], 0),
            torch.where(alive, by_member, 0),
        )


def _refuse_what_is_not_here(config: Config) -> None:
    if config.training.weight_decay or config.training.shards != 1:
        raise ValueError("batched training has neither weight decay nor shards")
    if config.training.optimizer == "muon":
        raise ValueError("batched training has no Muon, only Adam")
    if config.loops.sampling != "none":
        raise ValueError("batched training has no sampled loops: every step makes b")
    if config.model.residual_scaling == "factored":
        raise ValueError("batched training has no factored scaling: one rate serves all parameters")
