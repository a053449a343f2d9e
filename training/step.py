"""One update: sample, predict, gradients of each shard, sum, clip, step. The host never waits here.

The host sets seeds, rate and number of a step. All the rest is a body that only queues work on the
device. It is the same for every step of a stage, so that graph.py can capture it.

Losses and norms are summed on the device and fetched for the log. A step whose loss or gradient is
not finite only records its number.
"""

from contextlib import nullcontext
from functools import partial
from typing import NamedTuple

import torch
from torch import Generator, Tensor
from torch.nn.utils import clip_grads_with_norm_
from tqdm import tqdm

from looplab.conf.schema import Config
from looplab.curricula import Curriculum, SampledLoops, Stage
from looplab.models import Model
from looplab.tasks import Prompts, Task

from .assemble import misfit, seed_step
from .graph import CudaRecorder, GraphRunner
from .halting import LOOPS_USED, TrainedHalting
from .inside_loops import (
    GAIN,
    GRADIENT_NORMS,
    RESIDUAL_NORMS,
    JacobianGain,
    ResidualNorms,
    gradient_norm,
    parts_of,
)
from .objective import loss, targets
from .optim.optimizers import WeightAverage, make_optimizer
from .processes import Processes
from .recompute import Recompute
from .run_folder.checkpoint import Checkpoint

# Indices of Trainer.totals: the number of good steps, the first bad one, and the first of the sums.
_COUNT, _BAD, _SUMS = range(3)


class Totals(NamedTuple):
    """Means over the steps since the last fetch, and the first of them (if any) that was not
    finite; `others` by name: norms with training.log_norms, the gain with
    training.jacobian_penalty."""

    loss: float
    grad_norm: float
    bad_step: int | None
    others: dict[str, float]


class Batch(NamedTuple):
    """The prompts of one shard of a step, and the targets of their predictions [B, n]. With
    training.jacobian_penalty also the noise of a JacobianGain [B, tokens, n_embd], else None."""

    xs: Tensor
    ys: Tensor
    targets: Tensor
    noise: Tensor | None


class Trainer:
    """A model on its device with its optimiser; `update(step)` makes one step.

    On CUDA, unless `capture` is False or the number of loops is not known before a step, steps are
    captured as a graph. Several `processes` compute the shards of a batch, all make the same steps.
    """

    def __init__(
        self,
        config: Config,
        task: Task,
        curriculum: Curriculum,
        model: Model,
        capture: bool = True,
        processes: Processes | None = None,
    ) -> None:
        self.config = config
        self.task = task
        self.curriculum = curriculum
        self.model = model
        self.processes = processes
        self.parameters = list(model.parameters())
        self.device = self.parameters[0].device
        captures = capture and self.device.type == "cuda"
        if captures and (obstacle := capture_obstacle(config, curriculum, task)):
            tqdm.write(f"steps are not captured as a CUDA graph: {obstacle}")
            captures = False
        self.runner = GraphRunner(CudaRecorder(self.device) if captures else None)
        self.optimizer = make_optimizer(model, config)
        # The weights that each process updates, where they share the optimiser's state.
        self.shares: list[list[Tensor]] = []
        decay = config.training.ema_decay
        self.average = WeightAverage(model, decay) if decay else None
        self.log_norms = config.training.log_norms
        self.penalty = config.training.jacobian_penalty
        self.parts = parts_of(model) if self.log_norms else []
        # The names of what `losses` returns beside the objective, and of all that is summed up.
        self.values = ["loss"]
        if self.log_norms:
            self.values += RESIDUAL_NORMS
        if config.loops.halt:
            self.values.append(LOOPS_USED)
        if self.penalty:
            self.values.append(GAIN)
        self.summed = [*self.values, "grad_norm"]
        if self.log_norms:
            self.summed += GRADIENT_NORMS
        self.totals = torch.zeros(_SUMS + len(self.summed), dtype=torch.float64, device=self.device)
        # What the host sets before a step, in memory that a graph reads. The number counts from 1,
        # as in metrics.
        self.number = torch.zeros((), dtype=torch.float64, device=self.device)
        self.generators = [Generator(self.device) for _ in range(config.training.shards)]

    def update(self, step: int) -> None:
        """Make step `step`: a function of the weights, the optimiser, the seed and the step."""
        self.prepare(step)
        stage = self.curriculum(step)
        # All sizes of a step are in its stage: equal stages may share a graph.
        self.runner.run(stage, partial(self.compute, stage), self.generators)

    def fetch(self) -> Totals:
        """Read the totals, which waits for the device, and reset them."""
        count, bad, *sums = self.totals.tolist()
        self.totals.zero_()
        count = count or float("nan")
        # Without any good step a mean is nan: no division by zero, and no 0 that looks like a loss.
        means = {name: value / count for name, value in zip(self.summed, sums, strict=True)}
        bad_step = int(bad) - 1 if bad else None
        return Totals(means.pop("loss"), means.pop("grad_norm"), bad_step, means)

    def state(self) -> dict[str, Tensor]:
        """All tensors that the next steps depend on, by name. Where processes share the optimiser's
        state all must call this at once."""
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        state = self.optimizer.state()
        if self.processes and self.shares:
            state = self.processes.from_all(state)
        return tensors | state | (self.average.state() if self.average else {})

    def load(self, checkpoint: Checkpoint) -> None:
        """Load a checkpoint; RuntimeError for one of a model of another shape."""
        self.runner.drop()  # a graph would write to the state that is replaced here
        weights = checkpoint.last_weights()
        if problem := misfit(self.model, weights):
            raise RuntimeError(problem)
        self.model.load_state_dict(weights)
        self.optimizer.load(checkpoint.tensors)
        if self.average:
            self.average.load(checkpoint.tensors)
        self.totals.zero_()

    def share_optimizer(self) -> None:
        """Keep the optimiser's state of this process's weights alone, with training.zero_stage."""
        if self.processes and self.config.training.zero_stage:
            self.shares = self.processes.shares(self.parameters)
            self.optimizer.keep(self.shares[self.processes.rank])

    def prepare(self, step: int) -> None:
        """Set what a step depends on besides the weights and its stage."""
        for shard, generator in enumerate(self.generators):
            seed_step(generator, self.config.seed, step, shard)
        self.optimizer.prepare(step)
        self.number.fill_(step + 1)

    def compute(self, stage: Stage) -> None:
        """Make the step that is prepared: the mean of the shards' gradients, then the update. It
        must not wait for the device, or read the host's state except the stage."""
        shards = self.config.training.shards
        # None, not zeros: a graph's gradients must be in its own memory.
        self.model.zero_grad(set_to_none=True)
        values = torch.zeros(len(self.values), device=self.device, dtype=torch.float32)
        for shard in self.processes.own(shards) if self.processes else range(shards):
            objective, own_values = self.losses(stage, self.batch(stage, shard))
            # Gradients add up over shards, as if these were one batch.
            (objective / shards).backward()
            values += own_values / shards
        if self.processes:
            sums = [weight.grad for weight in self.parameters if weight.grad is not None]
            sums.append(values)
            self.processes.add_up(sums)
        self.apply(values)

    def losses(self, stage: Stage, batch: Batch) -> tuple[Tensor, Tensor]:
        """The objective [] on a batch, whose gradient is taken: the loss and its penalties; and,
        without gradients, what `values` names, [values]."""
        options = {
            "grad_loops": stage.grad_loops,
            "scale_loops": stage.scale_loops,
            "stop_at": self.config.loops.stop_at,
        }
        arguments = (Prompts(batch.xs, batch.ys), stage.loops, stage.window)
        norms = ResidualNorms(self.model) if self.log_norms else None
        jacobian = JacobianGain(self.model, batch.noise) if batch.noise is not None else None
        halting = TrainedHalting(self.model, self.config.loops) if self.config.loops.halt else None
        recompute = Recompute(self.model) if self.config.training.recompute else nullcontext()
        # Each hook wraps the `run_segment` that it finds: the last one entered is called first.
        with recompute, norms or nullcontext(), jacobian or nullcontext(), halting or nullcontext():
            predictions = self.model(*arguments, **options)
        if halting:
            objective = halting.error(predictions, batch.targets)
        else:
            objective = loss(self.task.loss, predictions, batch.targets)
        values = [objective]
        if norms:
            values.extend(norms.norms.unbind())  # of the first loop and of the last
        if halting:
            objective = objective + halting.cost
            values.append(halting.loops_used)
        if jacobian:
            objective = objective + self.penalty * jacobian.gain
            values.append(jacobian.gain)
        return objective, torch.stack(values).detach()

    def draw(self, stage: Stage, shard: int) -> Prompts:
        """The next prompts of one shard, after `prepare`."""
        batch = self.config.training.batch_size // self.config.training.shards
        return self.task.sample(self.generators[shard], batch, stage.points, stage.dims)

    def batch(self, stage: Stage, shard: int) -> Batch:
        """The next batch of one shard, after `prepare`."""
        prompts = self.draw(stage, shard)
        noise = None
        goals = targets(self.config.training.targets, self.task, prompts, stage.dims)
        if self.penalty:
            tokens = self.config.task.tokens_of(stage.points)
            shape = (len(prompts.xs), tokens, self.config.model.n_embd)
            source = self.generators[shard]
            noise = torch.randn(shape, generator=source, device=self.device, dtype=torch.float32)
        return Batch(prompts.xs, prompts.ys, goals, noise)

    def apply(self, values: Tensor) -> None:
        """Clip the parameters' gradients and update the weights; `values` are those of the losses
        of these gradients. Nothing is updated where loss or gradient is not finite."""
        norm = gradient_norm(self.parameters)
        norms = [norm]
        norms += map(gradient_norm, self.parts)
        if self.config.training.clip:
            # With the norm at hand, so that the gradients are not read for it a second time.
            clip_grads_with_norm_(self.parameters, self.config.training.clip, norm)
        if self.log_norms:
            norms.append(gradient_norm(self.parts[0]))
        # On the device: to look here would make the host wait for it.
        bad = ~(torch.isfinite(values[0]) & torch.isfinite(norm))
        self.optimizer.step(bad)
        if self.processes:
            self.processes.exchange(self.shares)
        if self.average:
            self.average.update(self.number, bad)
        good = (~bad).double()
        # Zero for what is not finite: nan times `good` = 0 would be nan, and stay in the totals.
        sums = torch.cat((values, torch.stack(norms))).double().nan_to_num(0.0, 0.0, 0.0)
        self.totals[_SUMS:] += sums * good
        self.totals[_COUNT] += good
        # Numbers count from 1, so that 0 means that no step was bad so far.
        first = torch.where(bad & (self.totals[_BAD] == 0), self.number, self.totals[_BAD])
        self.totals[_BAD] = first


def capture_obstacle(config: Config, curriculum: Curriculum, task: Task) -> str:
    """Say why steps cannot be captured as a graph; '' where they can. With drawn loops nearly every
    step would begin another stage, and a graph for each number of loops would need memory for as
    many steps; `loops.stop_at` reads the state on the host."""
    if isinstance(curriculum.loops, SampledLoops):
        return "each draws how many loops it makes"
    if task.data.is_on_host():
        return "the text is too large for the device"
    return "each ends its loops by their states (loops.stop_at)" if config.loops.stop_at else ""
