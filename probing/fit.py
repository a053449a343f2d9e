"""All probes of a run: their training at once, batch by batch and layer by layer, on whitened
states; and their errors. An interrupted training resumes from its last save.

fit = Fit(run, settings, layers, folder)
fit.train()
arrays = fit.errors()
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor
from torch.nn import Parameter
from torch.optim import Adam

from looplab.conf.plugins import Slip
from looplab.evaluation.kept import Arrays
from looplab.models import Model
from looplab.tasks import Prompts, Task
from looplab.tasks.random_source import FreshNumbers
from looplab.training.assemble import step_generator
from looplab.training.device import place_exactly
from looplab.training.progress import Progress
from looplab.training.run_folder.checkpoint import newest_checkpoint, save_checkpoint
from looplab.training.run_folder.run import Run

from .probes import LinearProbes, Probes, readings
from .settings import ProbingSettings
from .targets import default_targets, find_target

RATES = {"paper": 5e-3, "reference": 1e-3}  # Adam's, unless the settings give one
_BETWEEN_SAVES = 60.0  # seconds: large probes are gigabytes
_PARTS = 20  # of a training, over which errors are summed
_LEAST_SIZE = 1e-4  # of a target: one that varies by rounding only is not scaled up
_WORKING = 12  # a model's memory for the next layer, about, over that of a layer's states
_LINEAR_BATCHES = 8  # each of as many prompts as probes are tested on
_PENALTY = 1e-6  # over the inputs' variance: for directions that the states do not span
# A seed's streams of random numbers, different from those that a run was trained on.
_PROMPTS = {"probes": 101, "control": 102, "test": 103, "linear": 104}
_WEIGHTS = {"probes": 105, "control": 106}
# Directions of less variance than this are not scaled to 1: of the mean variance, and
_LEAST = 1e-4
_ROUNDING = 1e-10  # of the mean square, for a layer whose states are all equal


class Fit:
    """The probes of one run under one set of settings: `probes[kind][target]`, the kinds being
    "probes" and, with `settings.control`, "control", those trained with w = 1.

    `learning` holds the errors of the former in training over the target's variance: sums over the
    steps of each part, [parts, layers].

    The protocol is that of the paper or of its code, the `reference`. There a probe of every length
    sees the whole prompt, and least squares is predicted for up to d pairs. XᵀY is divided by the
    number of pairs n; errors, means over outputs, are divided by d again. Neither are states
    whitened nor targets scaled.
    """

    def __init__(self, run: Run, settings: ProbingSettings, layers: int, folder: Path) -> None:
        self.task = run.task.for_evaluation()
        self.settings = settings
        self.layers = layers
        self.folder = folder
        self.points = run.config.task.points
        self.width = run.config.model.n_embd
        self.reference = settings.protocol == "reference"
        names = settings.targets or default_targets(self.task)
        self.targets = {name: find_target(name) for name in names}
        self.model: Model = place_exactly(settings.device).prepare(run.model)
        self.device = next(self.model.parameters()).device
        # The identity at first: `whitening` below asks `self.states` for states as they are.
        self.whiten: Callable[[int, Tensor], Tensor] = lambda layer, states: states
        if not self.reference:
            prompts, _ = self.draw("linear")
            self.whiten = whitening(lambda: self.states(prompts), layers)
        self.sizes = {name: self._size(name) for name in self.targets}
        self.probes = {"probes": self._initial_probes("probes")}
        if settings.control:
            self.probes["control"] = self._initial_probes("control")
        parameters: list[Parameter] = []
        for by_target in self.probes.values():
            for probes in by_target.values():
                parameters += probes.parameters()
        rate = settings.learning_rate or RATES[settings.protocol]
        self.optimizer = Adam(parameters, lr=rate, fused=True)
        # The state that Adam makes at its first step: `_resume` fills it before.
        for parameter in parameters:
            self.optimizer.state[parameter] = {
                "step": torch.zeros((), device=self.device, dtype=torch.float32),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }
        sections = min(_PARTS, settings.steps)
        no_errors = torch.zeros(sections, layers, device=self.device, dtype=torch.float32)
        self.learning = {name: no_errors.clone() for name in self.targets}

    def lengths(self, name: str) -> range:
        """The context lengths i, from 1, of a target's probes."""
        lengths = range(1, self.points + 1 - self.targets[name].asks_query)
        if self.reference and name == "least_squares":
            return lengths[: self.task.dims]
        return lengths

    def tokens_seen(self, name: str) -> Tensor:
        """Which tokens the probe of each length sees, bool [lengths, 2 points]: i pairs are the
        first 2i, and the query's input is the next."""
        asks_query = self.targets[name].asks_query
        ends = torch.tensor([2 * length + asks_query for length in self.lengths(name)])
        # True for all tokens by the reference's protocol.
        return (torch.arange(2 * self.points) < ends[:, None]) | self.reference

    def values(self, name: str, prompts: Prompts, parameters: Any) -> Tensor:
        """A target's values [B, lengths, outputs], as the protocol scales them. Raises Slip for
        values of a user's target of another shape."""
        target = self.targets[name]
        lengths = len(self.lengths(name))
        pairs = lengths + target.asks_query  # later pairs do not bear on it
        prefixes = Prompts(prompts.xs[:, :pairs], prompts.ys[:, :pairs])
        values = target.compute(prefixes, parameters, self.task)
        shape = (len(prompts), lengths, target.outputs(self.task))
        got = getattr(values, "shape", type(values))
        if got != shape:
            problem = f"must return a tensor [B, lengths, outputs] = {list(shape)}, and not {got}"
            raise Slip(type(target), problem, "compute")
        if self.reference and name == "gradient":
            values = values * (1 / self.points)
        return values.float().to(self.device)

    def draw(self, what: str, step: int = 0) -> tuple[Prompts, Any]:
        """Prompts and the parameters of their functions. The "probes" and the "control" learn from
        a batch at each step; "linear" probes are solved from some batches; the "test"'s prompts are
        the same for all runs of a task."""
        generator = self._generator(step, _PROMPTS[what])
        batch = self.settings.batch_size if what in _WEIGHTS else self.settings.prompts
        if what == "control":
            return control_prompts(self.task, generator, batch, self.points)
        return self.task.draw(generator, batch, self.points)

    @torch.no_grad()
    def states(self, prompts: Prompts) -> Iterator[tuple[int, slice, Tensor]]:
        """(layer, rows of the batch, their states before the last norm [rows, 2 points, n_embd]),
        layer by layer for as many prompts at a time as `settings.memory` allows; layer 0 is the
        read-in. Whitened, but for the `reference`."""
        state_bytes = 4 * 2 * self.points * self.width  # per prompt
        chunk = max(1, self.settings.memory * 2**20 // (_WORKING * state_bytes))
        for first in range(0, len(prompts), chunk):
            rows = slice(first, first + chunk)
            unrolled = self.model.unroll(prompts[rows].to(self.device), self.layers - 1)
            for layer, (state, _) in enumerate(unrolled):
                yield layer, rows, self.whiten(layer, state.raw)

    def train(self) -> None:
        """All remaining steps, with a save from time to time."""
        self.folder.mkdir(parents=True, exist_ok=True)
        steps = self.settings.steps
        first_step = self._resume()
        save_time = time.monotonic()
        with Progress(steps, "probes", "step", first_step) as progress:
            for step in range(first_step, steps):
                losses = self._learn("probes", *self.draw("probes", step))
                for name, sums in self.learning.items():
                    # Step s of `steps` belongs to the part s · parts / steps, rounded down.
                    sums[step * len(sums) // steps] += losses[name]
                if "control" in self.probes:
                    self._learn("control", *self.draw("control", step))
                self.optimizer.step()
                # In place: gradients are as large as the probes, and new ones would cost each step.
                self.optimizer.zero_grad(set_to_none=False)
                progress.update()
                if step + 1 == steps or time.monotonic() - save_time > _BETWEEN_SAVES:
                    save_checkpoint(self.folder, step + 1, self._tensors())
                    save_time = time.monotonic()

    @torch.no_grad()
    def errors(self) -> Arrays:
        """Errors on the test prompts over the protocol's divisor: `<target>/probes` and, if there
        is one, `<target>/control` [layers, seeds, lengths, P], `<target>/linear` [layers, lengths,
        P]; and `<target>/variance` [lengths], the target's own on these prompts."""
        prompts, parameters = self.draw("test")
        values = {name: self.values(name, prompts, parameters) for name in self.targets}
        divisor = self.task.dims if self.reference else 1.0
        arrays: Arrays = {}
        for name, wanted in values.items():
            # Of each output over prompts, then the mean over outputs: [lengths].
            variance = wanted.var(0).mean(-1) / divisor
            arrays[f"{name}/variance"] = variance.cpu().numpy()
        linear_probes = self.linear_probes()
        for layer, rows, states in self.states(prompts):
            predictions = {}
            for kind, by_target in self.probes.items():
                for name, probes in by_target.items():
                    scaled = probes.predict(layer, states)
                    # [seeds, lengths, rows, outputs] · [lengths, 1, 1]: in the target's unit again.
                    predictions[f"{name}/{kind}"] = name, scaled * self.sizes[name]
            for names, linear in linear_probes.items():
                outputs = [values[name].shape[2] for name in names]
                by_name = linear.predict(layer, states).split(outputs, dim=-1)
                for name, predicted in zip(names, by_name, strict=True):
                    predictions[f"{name}/linear"] = name, predicted
            for key, (name, predicted) in predictions.items():
                wanted = values[name][rows].transpose(0, 1)  # [lengths, rows, outputs]
                errors = (predicted - wanted).square().mean(-1) / divisor
                if key not in arrays:
                    shape = (self.layers, *errors.shape[:-1], len(prompts))
                    arrays[key] = np.empty(shape, dtype=np.float32)
                arrays[key][layer, ..., rows] = errors.cpu().numpy()
        return arrays

    def linear_probes(self) -> dict[tuple[str, ...], LinearProbes]:
        """The linear probes of all targets, solved from prompts of their own: one for the outputs
        of all targets that see the same tokens, by their names."""
        groups = defaultdict(list)
        for name, target in self.targets.items():
            # These two decide which tokens are seen.
            groups[self.lengths(name), target.asks_query].append(name)
        linear_probes = {}
        for names in groups.values():
            outputs = sum(self.targets[name].outputs(self.task) for name in names)
            weights = readings(self.tokens_seen(names[0])).to(self.device)
            probes = LinearProbes(self.layers, weights, self.width, outputs)
            linear_probes[tuple(names)] = probes
        for batch in range(_LINEAR_BATCHES):
            prompts, parameters = self.draw("linear", batch)
            values = {name: self.values(name, prompts, parameters) for name in self.targets}
            for layer, rows, states in self.states(prompts):
                for group, probes in linear_probes.items():
                    wanted = torch.cat([values[name][rows] for name in group], -1)
                    probes.add(layer, states, wanted)
        for probes in linear_probes.values():
            probes.solve(_PENALTY)
        return linear_probes

    def _learn(self, kind: str, prompts: Prompts, parameters: Any) -> dict[str, Tensor]:
        """The gradients of one kind of probes on these prompts; returns their mean losses, by
        target and layer."""
        values = {}
        for name in self.targets:
            # [B, lengths, outputs] over [lengths, 1].
            values[name] = self.values(name, prompts, parameters) / self.sizes[name][:, 0]
        losses = {name: torch.zeros_like(sums[0]) for name, sums in self.learning.items()}
        for layer, rows, states in self.states(prompts):
            for name, probes in self.probes[kind].items():
                shares = probes.accumulate(layer, states, values[name][rows], len(prompts))
                losses[name][layer] += shares.mean()
        return losses

    def _initial_probes(self, kind: str) -> dict[str, Probes]:
        """Untrained probes of all targets."""
        probes = {}
        for index, (name, target) in enumerate(self.targets.items()):
            module = Probes(
                self.layers,
                self.settings.seeds,
                self.tokens_seen(name),
                self.width,
                target.outputs(self.task),
                generator=self._generator(index, _WEIGHTS[kind]),
            )
            probes[name] = module.to(self.device)
        return probes

    def _size(self, name: str) -> Tensor:
        """The divisors of a target in training, [lengths, 1, 1]: its standard deviation at each
        length, so that probes of all lengths learn at the same rate."""
        values = self.values(name, *self.draw("linear"))
        sizes = values.std(0).mean(-1)[:, None, None].clamp_min(_LEAST_SIZE)
        return torch.ones_like(sizes) if self.reference else sizes

    def _generator(self, step: int, stream: int) -> Generator:
        return step_generator(self.settings.seed, step, stream, torch.device("cpu"))

    def _tensors(self) -> dict[str, Tensor]:
        """All that training changes, by name."""
        tensors = {f"learning/{name}": sums for name, sums in self.learning.items()}
        for kind, by_target in self.probes.items():
            for target, probes in by_target.items():
                for name, parameter in probes.named_parameters():
                    prefix = f"{kind}/{target}/{name}"
                    tensors[f"{prefix}/value"] = parameter
                    for key, state in self.optimizer.state[parameter].items():
                        tensors[f"{prefix}/{key}"] = state
        return tensors

    @torch.no_grad()
    def _resume(self) -> int:
        """Load the newest undamaged checkpoint; returns its step, 0 if there is none."""
        checkpoint, _ = newest_checkpoint(self.folder)
        if checkpoint is None:
            return 0
        for name, tensor in self._tensors().items():
            tensor.copy_(checkpoint.tensors[name])
        return checkpoint.step


def control_prompts(
    task: Task, generator: Generator, batch: int, points: int
) -> tuple[Prompts, Tensor]:
    """Prompts whose functions all have the weights w = 1, and these weights [batch, d].

    Probes that are trained on them and tested on random w are the control (Yang et al. 2024,
    appendix F): what a probe computes itself instead of reading it off the states. Inputs and noise
    are those that `task.draw` draws from the same generator without `distinct_prompts`.
    """
    draws = FreshNumbers(generator, batch)
    weights = torch.ones_like(task.parameters(draws, task.dims))
    return task.prompts(weights, draws, points, task.dims), weights


def whitening(
    states: Callable[[], Iterator[tuple[int, slice, Tensor]]], layers: int
) -> Callable[[int, Tensor], Tensor]:
    """An affine map of each layer's states [B, S, D], the same for all prompts. The mapped states
    have no mean, and vary alike in all directions. Each call of `states` yields all states batch by
    batch as (layer, rows, [rows, S, D]); it is called twice.

    A probe's first map and bias can undo it, so that probes can compute the same functions; but
    Adam learns them faster, as the variance of states differs between directions by orders of
    magnitude.
    """
    count = 0
    sums: dict[int, Tensor] = {}
    for layer, _, batch in states():
        if layer == 0:
            count += len(batch)
        total = batch.sum(0, dtype=torch.float64)
        sums[layer] = sums[layer] + total if layer in sums else total
    means = torch.stack([sums[layer] for layer in range(layers)]) / count
    grams = means.new_zeros(layers, means.shape[2], means.shape[2])
    for layer, _, batch in states():
        # Centred token by token, then one row for each prompt and token: [rows · S, D].
        rows = (batch - means[layer].to(batch.dtype)).flatten(0, 1)
        grams[layer] += rows.T @ rows
    # Over all prompts and tokens; the mean was taken token by token.
    values, vectors = torch.linalg.eigh(grams / (count * means.shape[1]))
    variance = values.mean(1, keepdim=True)
    # The mean square of a layer's states, to which rounding is in proportion.
    square = variance + means.square().mean((1, 2))[:, None]
    floor = torch.maximum(_LEAST * variance, _ROUNDING * square)
    scales = values.clamp_min(floor).clamp_min(torch.finfo(torch.float32).tiny).rsqrt()
    # Symmetric: computed again, or on another machine, it is the same map but for rounding.
    maps = (vectors * scales[:, None] @ vectors.mT).float()
    centres = means.float()
    return lambda layer, states: (states - centres[layer]) @ maps[layer]
