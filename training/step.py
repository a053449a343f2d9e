"""One update: sample, predict, gradients of each shard, sum, clip, step. The host never waits here.

The host sets seeds, rate and number of a step; all the rest is a body that only queues work on the
device, the same for every step of a stage, so that it can be captured (graph.py). Losses and norms
are summed on the device and fetched for the log. A step whose loss or gradient is not finite only
records its number.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from typing import NamedTuple

import torch
from torch import Generator, Tensor
from torch.func import functional_call
from torch.nn.utils import clip_grads_with_norm_
from tqdm import tqdm

from looplab.conf.schema import Config
from looplab.curricula import Curriculum, SampledLoops, Stage
from looplab.models import Model
from looplab.tasks import Prompts, Task

from .assemble import seed_step
from .graph import CudaRecorder, GraphRunner
from .inside_loops import NORMS, JacobianGain, ResidualNorms, first_mlp, gradient_norm
from .objective import loss, targets
from .optim.optimizers import WeightAverage, make_optimizer
from .run_folder.checkpoint import Checkpoint

_LOSS, _NORM, _COUNT, _BAD, _OTHERS = range(5)  # indices of Trainer.totals
_GAIN = "jacobian_gain"  # its name in metrics.jsonl


class Totals(NamedTuple):
    """Means over the steps since the last fetch, and the first of them (if any) that was not
    finite; `others` by name: norms with training.log_norms, the gain with
    training.jacobian_penalty."""

    loss: float
    grad_norm: float
    bad_step: int | None
    others: dict[str, float]


class Trainer:
    """A model on its device with its optimiser; `update(step)` makes one step.

    On CUDA, unless `capture` is False or the number of loops is not known before a step, steps are
    captured as a graph.
    """

    def __init__(
        self,
        config: Config,
        task: Task,
        curriculum: Curriculum,
        model: Model,
        capture: bool = True,
    ) -> None:
        self.config, self.task, self.curriculum, self.model = config, task, curriculum, model
        self.parameters = list(model.parameters())
        self.device = self.parameters[0].device
        captures = capture and self.device.type == "cuda"
        if captures and (obstacle := _not_captured(config, curriculum)):
            tqdm.write(f"steps are not captured as a CUDA graph: {obstacle}")
            captures = False
        self.runner = GraphRunner(CudaRecorder(self.device) if captures else None)
        self.optimizer = make_optimizer(model, config)
        decay = config.training.ema_decay
        self.average = WeightAverage(model, decay) if decay else None
        self.first_mlp = first_mlp(model)
        self.norms = NORMS if config.training.log_norms else ()
        self.penalty = config.training.jacobian_penalty
        self.others = (*self.norms, *([_GAIN] if self.penalty else []))
        self.totals = torch.zeros(4 + len(self.others), dtype=torch.float64, device=self.device)
        # What the host sets before a step, in memory that a graph reads. The number counts from 1,
        # as in metrics.
        self.number = torch.zeros((), dtype=torch.float64, device=self.device)
        self.generators = [Generator(self.device) for _ in range(config.training.shards)]

    def update(self, step: int) -> None:
        """Make step `step`: a function of the weights, the optimiser, the seed and the step."""
        self.prepare(step)
        stage = self.curriculum(step)
        self.runner.run(stage, partial(self._step, stage), self.generators)

    def prompts(self, step: int, shard: int) -> Prompts:
        """The batch of one shard of a step, sampled again."""
        self.prepare(step)
        return self.draw(self.curriculum(step), shard)

    def fetch(self) -> Totals:
        """Read the totals, which waits for the device, and reset them."""
        loss_sum, norm_sum, count, bad, *others = self.totals.tolist()
        self.totals.zero_()
        count = count or float("nan")
        means = {name: value / count for name, value in zip(self.others, others, strict=True)}
        return Totals(loss_sum / count, norm_sum / count, int(bad) - 1 if bad else None, means)

    def state(self) -> dict[str, Tensor]:
        """All tensors that the next steps depend on, by name."""
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        tensors |= self.optimizer.state()
        return tensors | (self.average.state() if self.average else {})

    def load(self, checkpoint: Checkpoint) -> None:
        """Load a checkpoint; RuntimeError for one of a model of another shape."""
        self.runner.drop()  # a graph would write to the state that is replaced here
        self.model.load_state_dict(checkpoint.last_weights())
        self.optimizer.load(checkpoint.tensors)
        if self.average:
            self.average.load(checkpoint.tensors)
        self.totals.zero_()

    def prepare(self, step: int) -> None:
        """Set what a step depends on besides the weights and its stage."""
        for shard, generator in enumerate(self.generators):
            seed_step(generator, self.config.seed, step, shard)
        self.optimizer.prepare(step)
        self.number.fill_(step + 1)

    def _step(self, stage: Stage) -> None:
        """The body: it must not wait for the device, or read the host's state except the stage."""
        self.apply(self._gradients(stage, range(self.config.training.shards)))

    def _gradients(self, stage: Stage, own: range) -> Tensor:
        """The values of the losses [4] of these shards over the number of all, whose gradients the
        parameters have afterwards."""
        shards = self.config.training.shards
        # None, not zeros: a graph's gradients must be in its own memory.
        self.model.zero_grad(set_to_none=True)
        values = torch.zeros(4, device=self.device, dtype=torch.float32)
        for shard in own:
            prompts = self.draw(stage, shard)
            ys = targets(self.config.training.targets, self.task, prompts, stage.dims)
            objective, own_values = self.losses(stage, prompts, ys, self.draw_noise(stage, shard))
            (objective / shards).backward()
            values += own_values / shards
        return values

    def losses(
        self,
        stage: Stage,
        prompts: Prompts,
        ys: Tensor,
        noise: Tensor | None,
        weights: Mapping[str, Tensor] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The objective [] on these prompts and targets, whose gradient is taken, and four values
        [4] without gradients: its part the loss, without the penalty, the norms of a ResidualNorms,
        zero without training.log_norms, and the gain of a JacobianGain, zero without
        training.jacobian_penalty. `weights` are in place of the model's where given; `noise` is
        that of the JacobianGain, None without it."""
        options = {
            "grad_loops": stage.grad_loops,
            "scale_loops": stage.scale_loops,
            "stop_at": self.config.loops.stop_at,
        }
        arguments = (prompts, stage.loops, stage.window)
        norms = ResidualNorms(self.model) if self.norms else None
        jacobian = JacobianGain(self.model, noise) if noise is not None else None
        with norms or nullcontext(), jacobian or nullcontext():
            if weights is None:
                predictions = self.model(*arguments, **options)
            else:
                predictions = functional_call(self.model, dict(weights), arguments, options)
        value = loss(self.task.loss, predictions, ys)
        residual = norms.norms if norms else value.new_zeros(2)
        gain = jacobian.gain if jacobian else value.new_zeros(())
        objective = value + self.penalty * gain if jacobian else value
        return objective, torch.cat((value[None], residual, gain[None])).detach()

    def draw(self, stage: Stage, shard: int) -> Prompts:
        """The next batch of one shard, after `prepare`."""
        batch = self.config.training.batch_size // self.config.training.shards
        return self.task.sample(self.generators[shard], batch, stage.points, stage.dims)

    def draw_noise(self, stage: Stage, shard: int) -> Tensor | None:
        """The noise of one shard's JacobianGain, [B, tokens, n_embd], after `draw`; None without
        training.jacobian_penalty."""
        if not self.penalty:
            return None
        batch = self.config.training.batch_size // self.config.training.shards
        tokens = stage.points if self.task.is_text else 2 * stage.points - 1
        size = (batch, tokens, self.config.model.n_embd)
        return torch.randn(
            size, generator=self.generators[shard], device=self.device, dtype=torch.float32
        )

    def apply(self, values: Tensor) -> None:
        """Clip the parameters' gradients and update the weights; `values` [4] are those of the
        losses of these gradients. Nothing is updated where loss or gradient is not finite."""
        training, total = self.config.training, values[0]
        norm = gradient_norm(self.parameters)
        mlp_norm = gradient_norm(self.first_mlp) if self.norms else None
        if training.clip:
            clip_grads_with_norm_(self.parameters, training.clip, norm)
        bad = ~(torch.isfinite(total) & torch.isfinite(norm))
        self.optimizer.step(bad)
        if self.average:
            self.average.update(self.number, bad)
        good = (~bad).double()
        others = list(values[1:3]) if self.norms else []
        if mlp_norm is not None:
            others += [mlp_norm, gradient_norm(self.first_mlp)]
        others += [values[3]] if self.penalty else []
        sums = torch.stack((total, norm, *others)).double().nan_to_num(0.0, 0.0, 0.0) * good
        self.totals[_LOSS : _NORM + 1] += sums[:2]
        self.totals[_COUNT] += good
        self.totals[_OTHERS:] += sums[2:]
        first = torch.where(bad & (self.totals[_BAD] == 0), self.number, self.totals[_BAD])
        self.totals[_BAD] = first


def _not_captured(config: Config, curriculum: Curriculum) -> str:
    """Why steps cannot be captured; '' where they can. With drawn loops nearly every step would
    begin another stage, and a graph for each number of loops would need memory for as many steps;
    `loops.stop_at` reads the state on the host."""
    if isinstance(curriculum.loops, SampledLoops):
        return "each draws how many loops it makes"
    return "each ends its loops by their states (loops.stop_at)" if config.loops.stop_at else ""
