"""Training of all probes of a run at once, batch by batch and layer by layer, on whitened states;
an interrupted one resumes from its last save."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.optim import Adam

from looplab.models import Model
from looplab.tasks import Prompts, Task
from looplab.tasks.conditioned_linear import ConditionedLinear
from looplab.tasks.linear import Linear, SparseLinear
from looplab.tasks.random_source import FreshNumbers
from looplab.training.assemble import step_generator
from looplab.training.device import place_exactly
from looplab.training.progress import Progress
from looplab.training.run_folder.checkpoint import newest_checkpoint, save_checkpoint
from looplab.training.run_folder.run import Run

from .probes import Probes
from .settings import ProbingSettings
from .targets import find_target

RATES = {"paper": 5e-3, "reference": 1e-3}  # Adam's, unless the settings give one
_BETWEEN_SAVES = 60.0  # seconds: large probes are gigabytes
_PARTS = 20  # of a training, over which errors are summed
_LEAST_SIZE = 1e-4  # of a target: one that varies by rounding only is not scaled up
_WORKING = 12  # a model's memory for the next layer, about, over that of a layer's states
# A seed's streams of random numbers, different from those that a run was trained on.
_MAIN, _CONTROL, _TEST, _LINEAR, _WEIGHTS, _CONTROL_WEIGHTS = range(101, 107)
# Directions of less variance than this are not scaled to 1: of the mean variance, and
_LEAST = 1e-4
_ROUNDING = 1e-10  # of the mean square, for a layer whose states are all equal


class Fit:
    """The probes of one run under one set of settings: `probes[kind][target]`, the kinds being
    "probes" and, with `settings.control`, "control", those trained with w = 1.

    `learning` holds the errors of the former in training over the target's variance: sums over the
    steps of each part, [parts, layers]. The protocol is that of the paper or of its code, the
    `reference`: there a probe of every length sees the whole prompt, XᵀY is divided by the number
    of pairs n, least squares is predicted for up to d pairs, errors, means over outputs, are
    divided by d again, and neither are states whitened nor targets scaled.
    """

    def __init__(self, run: Run, settings: ProbingSettings, layers: int, folder: Path) -> None:
        self.task = run.task.for_evaluation()
        self.settings, self.layers, self.folder = settings, layers, folder
        self.points, self.width = run.config.task.points, run.config.model.n_embd
        self.reference = settings.protocol == "reference"
        self.targets = {name: find_target(name) for name in settings.targets}
        self.model: Model = place_exactly(settings.device).prepare(run.model)
        self.device = next(self.model.parameters()).device
        self.whitening: Whitening | None = None
        if not self.reference:
            prompts, _ = self.linear_prompts(0)
            self.whitening = Whitening.of(
                lambda: ((layer, states) for layer, _, states in self.states(prompts)), layers
            )
        self.sizes = {name: self._size(name) for name in self.targets}
        streams = {"probes": _WEIGHTS} | ({"control": _CONTROL_WEIGHTS} if settings.control else {})
        self.probes = {kind: self._fresh_probes(stream) for kind, stream in streams.items()}
        rate = settings.learning_rate or RATES[settings.protocol]
        self.optimizer = Adam(self._parameters().values(), lr=rate, fused=True)
        parts = min(_PARTS, settings.steps)
        self.learning = {
            name: torch.zeros(parts, layers, device=self.device, dtype=torch.float32)
            for name in self.targets
        }

    def lengths(self, name: str) -> range:
        """The context lengths i, from 1, of a target's probes."""
        lengths = range(1, self.points + 1 - self.targets[name].asks_query)
        return lengths[: self.task.dims] if self.reference and name == "least_squares" else lengths

    def tokens_seen(self, name: str) -> Tensor:
        """Which tokens the probe of each length sees, bool [lengths, 2 points]: i pairs are the
        first 2i, and the query's input is the next."""
        asks_query = self.targets[name].asks_query
        ends = torch.tensor([2 * length + asks_query for length in self.lengths(name)])
        return (torch.arange(2 * self.points) < ends[:, None]) | self.reference

    def outputs(self, name: str) -> int:
        """The number of outputs of a target."""
        return self.targets[name].outputs(self.task)

    def values(self, name: str, prompts: Prompts, parameters: Any) -> Tensor:
        """A target's values [B, lengths, outputs], as the protocol scales them."""
        target = self.targets[name]
        pairs = len(self.lengths(name)) + target.asks_query  # later pairs do not bear on it
        prefixes = Prompts(prompts.xs[:, :pairs], prompts.ys[:, :pairs])
        scale = 1 / self.points if self.reference and name == "gradient" else 1.0
        return (target.compute(prefixes, parameters, self.task) * scale).float()

    @property
    def error_divisor(self) -> float:
        """The divisor of errors, which are means over prompts and outputs."""
        return self.task.dims if self.reference else 1.0

    def train(self) -> None:
        """All remaining steps, with a save from time to time."""
        first_step, save_time = self._resume(), time.monotonic()
        with Progress(self.settings.steps, "probes", "step", first_step) as progress:
            for step in range(first_step, self.settings.steps):
                self._step(step)
                progress.update()
                if time.monotonic() - save_time > _BETWEEN_SAVES:
                    self._save(step + 1)
                    save_time = time.monotonic()
        self._save(self.settings.steps)

    def test_prompts(self) -> tuple[Prompts, Any]:
        """The prompts that probes are tested on, the same for all runs of a task, and the
        parameters of their functions."""
        return self._draw(0, _TEST, self.settings.prompts)

    def linear_prompts(self, batch: int) -> tuple[Prompts, Any]:
        """Batch number `batch` of the prompts that linear probes are solved from."""
        return self._draw(batch, _LINEAR, self.settings.prompts)

    def predict(self, kind: str, name: str, layer: int, states: Tensor) -> Tensor:
        """Predictions of a target from a layer's states: [seeds, lengths, B, outputs]."""
        return self.probes[kind][name].predict(layer, states) * self.sizes[name].to(states.device)

    @torch.no_grad()
    def states(self, prompts: Prompts) -> Iterator[tuple[int, slice, Tensor]]:
        """(layer, rows of the batch, their states before the last norm [rows, 2 points, n_embd]),
        layer by layer for as many prompts at a time as `settings.memory` allows; layer 0 is the
        read-in. Whitened, once there is a `whitening`."""
        state_bytes = 4 * 2 * self.points * self.width  # per prompt
        chunk = max(1, self.settings.memory * 2**20 // (_WORKING * state_bytes))
        for first in range(0, len(prompts), chunk):
            rows = slice(first, first + chunk)
            unrolled = self.model.unroll(prompts[rows].to(self.device), self.layers - 1)
            for layer, (state, _) in enumerate(unrolled):
                raw = state.raw
                yield layer, rows, self.whitening(layer, raw) if self.whitening else raw

    def _step(self, step: int) -> None:
        batch = self.settings.batch_size
        losses = self._learn("probes", *self._draw(step, _MAIN, batch))
        for name, sums in self.learning.items():
            sums[step * len(sums) // self.settings.steps] += losses[name]
        if "control" in self.probes:
            generator = self._generator(step, _CONTROL)
            self._learn("control", *control_prompts(self.task, generator, batch, self.points))
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=False)

    def _learn(self, kind: str, prompts: Prompts, parameters: Any) -> dict[str, Tensor]:
        """The gradients of one kind of probes on these prompts; returns their mean losses, by
        target and layer."""
        values = {
            name: (self.values(name, prompts, parameters) / self.sizes[name][:, 0]).to(self.device)
            for name in self.targets
        }
        losses = {name: torch.zeros_like(sums[0]) for name, sums in self.learning.items()}
        for layer, rows, states in self.states(prompts):
            for name, probes in self.probes[kind].items():
                shares = probes.accumulate(layer, states, values[name][rows], len(prompts))
                losses[name][layer] += shares.mean()
        return losses

    def _size(self, name: str) -> Tensor:
        """The divisors of a target in training, [lengths, 1, 1]: its standard deviation at each
        length, so that probes of all lengths learn at the same rate."""
        values = self.values(name, *self.linear_prompts(0))
        sizes = values.std(0).mean(-1)[:, None, None].clamp_min(_LEAST_SIZE)
        return torch.ones_like(sizes) if self.reference else sizes

    def _fresh_probes(self, stream: int) -> dict[str, Probes]:
        return {
            name: Probes(
                self.layers,
                self.settings.seeds,
                self.tokens_seen(name),
                self.width,
                self.outputs(name),
                generator=self._generator(index, stream),
            ).to(self.device)
            for index, name in enumerate(self.targets)
        }

    def _draw(self, step: int, stream: int, batch: int) -> tuple[Prompts, Any]:
        return self.task.draw(self._generator(step, stream), batch, self.points)

    def _generator(self, step: int, stream: int) -> Generator:
        return step_generator(self.settings.seed, step, stream, torch.device("cpu"))

    def _parameters(self) -> dict[str, nn.Parameter]:
        return {
            f"{kind}/{name}/{part}": parameter
            for kind, by_target in self.probes.items()
            for name, probes in by_target.items()
            for part, parameter in probes.named_parameters()
        }

    def _save(self, step: int) -> None:
        tensors: dict[str, Tensor] = {f"learning/{k}": sums for k, sums in self.learning.items()}
        for name, parameter in self._parameters().items():
            tensors[name] = parameter
            for key, value in self.optimizer.state[parameter].items():
                tensors[f"adam.{key}/{name}"] = value
        self.folder.mkdir(parents=True, exist_ok=True)
        save_checkpoint(self.folder, step, tensors)

    @torch.no_grad()
    def _resume(self) -> int:
        """Load the newest undamaged checkpoint; returns its step, 0 if there is none."""
        checkpoint, _ = newest_checkpoint(self.folder)
        if checkpoint is None:
            return 0
        for name, sums in self.learning.items():
            sums.copy_(checkpoint.tensors[f"learning/{name}"])
        for name, parameter in self._parameters().items():
            parameter.copy_(checkpoint.tensors[name])
            self.optimizer.state[parameter] = {
                key: checkpoint.tensors[f"adam.{key}/{name}"].to(parameter.device)
                for key in ("step", "exp_avg", "exp_avg_sq")
            }
        return checkpoint.step


def has_control(task: Task) -> bool:
    """Whether a task is of dense linear functions, whose weights can all be 1."""
    return isinstance(task, Linear) and not isinstance(task, SparseLinear | ConditionedLinear)


def control_prompts(
    task: Task, generator: Generator, batch: int, points: int
) -> tuple[Prompts, Tensor]:
    """Prompts whose functions all have the weights w = 1, and these weights [batch, d].

    Probes that are trained on them and tested on random w are the control (Yang et al. 2024,
    appendix F): what a probe computes itself instead of reading it off the states. Inputs and noise
    are those that `task.draw` draws from the same generator; `distinct_prompts` is ignored.
    """
    draws = FreshNumbers(generator, batch)
    weights = torch.ones_like(task.parameters(draws, task.dims))
    return task.prompts(weights, draws, points, task.dims), weights


@dataclass(frozen=True)
class Whitening:
    """An affine map of each layer's states [B, S, D], the same for all prompts.

    A probe's first map and bias can undo it, so that probes can compute the same functions; but
    Adam learns them faster, as the variance of states differs between directions by orders of
    magnitude.
    """

    means: Tensor  # [layers, S, D]
    maps: Tensor  # [layers, D, D], symmetric

    @classmethod
    def of(cls, states: Callable[[], Iterator[tuple[int, Tensor]]], layers: int) -> Whitening:
        """The whitening of all states, which each call of `states` yields batch by batch as
        (layer, [prompts, S, D]); it is called twice."""
        count, sums = 0, dict[int, Tensor]()
        for layer, batch in states():
            count += len(batch) if layer == 0 else 0
            total = batch.sum(0, dtype=torch.float64)
            sums[layer] = sums[layer] + total if layer in sums else total
        means = torch.stack([sums[layer] for layer in range(layers)]) / count
        grams = means.new_zeros(layers, means.shape[2], means.shape[2])
        for layer, batch in states():
            rows = (batch - means[layer].to(batch.dtype)).flatten(0, 1)
            grams[layer] += rows.T @ rows
        values, vectors = torch.linalg.eigh(grams / (count * means.shape[1]))
        variance = values.mean(1, keepdim=True)
        square = variance + means.square().mean((1, 2))[:, None]
        floor = torch.maximum(_LEAST * variance, _ROUNDING * square)
        tiny = torch.finfo(torch.float32).tiny
        scales = values.clamp_min(floor).clamp_min(tiny).rsqrt()
        # Symmetric: computed again, or on another machine, it is the same map but for rounding.
        maps = vectors * scales[:, None] @ vectors.mT
        return cls(means.float(), maps.float())

    def __call__(self, layer: int, states: Tensor) -> Tensor:
        """The states of a layer, whitened."""
        return (states - self.means[layer]) @ self.maps[layer]
