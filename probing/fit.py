"""Training of all probes of a run at once, batch by batch and layer by layer, on whitened states;
an interrupted one resumes from its last save."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor

from looplab.models import Model
from looplab.tasks import Prompts
from looplab.training.assemble import step_generator
from looplab.training.device import place_exactly
from looplab.training.progress import Progress
from looplab.training.run_folder.checkpoint import newest_checkpoint, save_checkpoint
from looplab.training.run_folder.run import Run

from .probes import Probes, ProbeTrainer
from .protocols import PROTOCOLS, control_prompts
from .settings import ProbingSettings
from .targets import find_target

_BETWEEN_SAVES = 20.0  # seconds, and
_WORTH = 10  # times as long as the last save took: large probes are gigabytes
_PARTS = 20  # of a training, over which errors are summed
_LEAST_SIZE = 1e-4  # of a target: one that varies by rounding only is not scaled up
_WORKING = 12  # a model's memory for the next layer, about, over that of a layer's states
# A seed's streams of random numbers, different from those that a run was trained on.
_MAIN, _CONTROL, _TEST, _LINEAR, _WEIGHTS, _CONTROL_WEIGHTS = range(101, 107)
# Directions of less variance than this are not scaled to 1: of the mean variance, and
_LEAST = 1e-4
_ROUNDING = 1e-10  # of the mean square, for a layer whose states are all equal


class Fit:
    """The probes of one run under one set of settings, by the target's name: `probes`, and in
    `control` those trained with w = 1 (empty without `settings.control`). `learning` holds the
    errors of `probes` in training over the target's variance: sums over the steps of each part,
    [parts, layers]."""

    def __init__(self, run: Run, settings: ProbingSettings, layers: int, folder: Path) -> None:
        self.task = run.task.for_evaluation()
        self.settings, self.layers, self.folder = settings, layers, folder
        self.points = run.config.task.points
        self.protocol = PROTOCOLS[settings.protocol]
        self.targets = {name: find_target(name) for name in settings.targets}
        self.model: Model = place_exactly(settings.device).prepare(run.model)
        self.device = next(self.model.parameters()).device
        self.width = run.config.model.n_embd
        self.whitening = self._whitening()
        self.sizes = {name: self._size(name) for name in self.targets}
        self.probes = self._trainers(_WEIGHTS)
        self.control = self._trainers(_CONTROL_WEIGHTS) if settings.control else {}
        parts = min(_PARTS, settings.steps)
        self.learning = {
            name: torch.zeros(parts, layers, device=self.device, dtype=torch.float32)
            for name in self.probes
        }

    def lengths(self, name: str) -> range:
        """The context lengths of a target's probes."""
        return self.protocol.lengths(self.targets[name], self.points, self.task.dims)

    def tokens_seen(self, name: str) -> Tensor:
        """Which tokens the probe of each length sees, bool [lengths, 2 points]."""
        target = self.targets[name]
        return self.protocol.tokens_seen(target, self.lengths(name), 2 * self.points)

    def train(self) -> None:
        """All remaining steps, with a save from time to time."""
        first_step, save_time, interval = self._resume(), time.monotonic(), _BETWEEN_SAVES
        with Progress(self.settings.steps, "probes", "step", first_step) as progress:
            for step in range(first_step, self.settings.steps):
                self._step(step)
                progress.update()
                if time.monotonic() - save_time > interval:
                    start_time = time.monotonic()
                    self._save(step + 1)
                    save_time = time.monotonic()
                    interval = max(_BETWEEN_SAVES, _WORTH * (save_time - start_time))
        self._save(self.settings.steps)

    def test_prompts(self) -> tuple[Prompts, Any]:
        """The prompts that probes are tested on, the same for all runs of a task, and the
        parameters of their functions."""
        return self._draw(0, _TEST, self.settings.prompts)

    def linear_prompts(self, batch: int) -> tuple[Prompts, Any]:
        """Batch number `batch` of the prompts that linear probes are solved from."""
        return self._draw(batch, _LINEAR, self.settings.prompts)

    def _draw(self, step: int, stream: int, batch: int) -> tuple[Prompts, Any]:
        return self.task.draw(self._generator(step, stream), batch, self.points)

    def values(self, name: str, prompts: Prompts, parameters: Any) -> Tensor:
        """A target's values [B, lengths, outputs], as the protocol scales them."""
        target = self.targets[name]
        return self.protocol.compute(target, prompts, parameters, self.task).float()

    def predict(self, trainer: ProbeTrainer, name: str, layer: int, states: Tensor) -> Tensor:
        """Predictions of a target from a layer's states: [seeds, lengths, B, outputs]."""
        return trainer.probes.predict(layer, states) * self.sizes[name].to(states.device)

    def states(self, prompts: Prompts) -> Iterator[tuple[int, slice, Tensor]]:
        """(layer, rows of the batch, their states before the last norm [rows, 2 points, n_embd]),
        layer by layer for as many prompts at a time as `settings.memory` allows; layer 0 is the
        read-in. Whitened, unless the protocol is `raw`."""
        for layer, rows, states in self._states(prompts):
            yield layer, rows, states if self.whitening is None else self.whitening(layer, states)

    def _whitening(self) -> Whitening | None:
        if self.protocol.raw:
            return None
        prompts, _ = self.linear_prompts(0)
        return Whitening.of(
            lambda: ((layer, states) for layer, _, states in self._states(prompts)), self.layers
        )

    @torch.no_grad()
    def _states(self, prompts: Prompts) -> Iterator[tuple[int, slice, Tensor]]:
        state_bytes = 4 * 2 * self.points * self.width  # per prompt
        chunk = max(1, self.settings.memory * 2**20 // (_WORKING * state_bytes))
        for first in range(0, len(prompts), chunk):
            rows = slice(first, first + chunk)
            unrolled = self.model.unroll(prompts[rows].to(self.device), self.layers - 1)
            for layer, (state, _) in enumerate(unrolled):
                yield layer, rows, state.raw

    def _step(self, step: int) -> None:
        batch = self.settings.batch_size
        losses = self._learn(self.probes, *self._draw(step, _MAIN, batch))
        for name, sums in self.learning.items():
            sums[step * len(sums) // self.settings.steps] += losses[name]
        if self.control:
            generator = self._generator(step, _CONTROL)
            self._learn(self.control, *control_prompts(self.task, generator, batch, self.points))

    def _learn(
        self, trainers: dict[str, ProbeTrainer], prompts: Prompts, parameters: Any
    ) -> dict[str, Tensor]:
        """One step on these prompts; returns the mean losses before it, by target and layer."""
        values = {
            name: (self.values(name, prompts, parameters) / self.sizes[name][:, 0]).to(self.device)
            for name in trainers
        }
        losses = {
            name: torch.zeros(self.layers, device=self.device, dtype=torch.float32)
            for name in trainers
        }
        for layer, rows, states in self.states(prompts):
            for name, trainer in trainers.items():
                targets = values[name][rows]
                shares = trainer.probes.accumulate(layer, states, targets, len(prompts))
                losses[name][layer] += shares.mean()
        for trainer in trainers.values():
            trainer.update()
        return losses

    def _size(self, name: str) -> Tensor:
        """The divisors of a target in training, [lengths, 1, 1]: its standard deviation at each
        length, so that probes of all lengths learn at the same rate."""
        values = self.values(name, *self.linear_prompts(0))
        sizes = values.std(0).mean(-1)[:, None, None].clamp_min(_LEAST_SIZE)
        return torch.ones_like(sizes) if self.protocol.raw else sizes

    def _trainers(self, stream: int) -> dict[str, ProbeTrainer]:
        rate = self.settings.learning_rate or self.protocol.learning_rate
        trainers = {}
        for index, name in enumerate(self.targets):
            probes = Probes(
                self.layers,
                self.settings.seeds,
                self.tokens_seen(name),
                self.width,
                self.outputs(name),
                generator=self._generator(index, stream),
            )
            trainers[name] = ProbeTrainer(probes.to(self.device), rate)
        return trainers

    def outputs(self, name: str) -> int:
        """The number of outputs of a target."""
        return self.targets[name].outputs(self.task)

    def _generator(self, step: int, stream: int) -> Generator:
        return step_generator(self.settings.seed, step, stream, torch.device("cpu"))

    def _state(self) -> dict[str, Tensor]:
        tensors: dict[str, Tensor] = {}
        for kind, trainers in (("probes", self.probes), ("control", self.control)):
            for name, trainer in trainers.items():
                tensors |= {f"{kind}/{name}/{k}": v for k, v in trainer.state().items()}
        return tensors | {f"learning/{name}": sums for name, sums in self.learning.items()}

    def _save(self, step: int) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        save_checkpoint(self.folder, step, self._state())

    def _resume(self) -> int:
        """Load the newest undamaged checkpoint; returns its step, 0 if there is none."""
        checkpoint, _ = newest_checkpoint(self.folder)
        if checkpoint is None:
            return 0

        def tensors_of(prefix: str) -> dict[str, Tensor]:
            items = checkpoint.tensors.items()
            return {k.removeprefix(prefix): v for k, v in items if k.startswith(prefix)}

        for kind, trainers in (("probes", self.probes), ("control", self.control)):
            for name, trainer in trainers.items():
                trainer.load(tensors_of(f"{kind}/{name}/"))
        for name, sums in self.learning.items():
            sums.copy_(checkpoint.tensors[f"learning/{name}"])
        return checkpoint.step


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
