"""Training all probes of a run at once, batch after batch and layer after layer, from wherever an
interrupted training stopped."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor

from reloop.models import Model
from reloop.tasks import Prompts
from reloop.training.assemble import step_generator
from reloop.training.device import place_exactly
from reloop.training.progress import Progress
from reloop.training.run_folder.checkpoint import newest_checkpoint, save_checkpoint
from reloop.training.run_folder.run import Run

from .probes import Probes, ProbeTrainer
from .prompts import control_prompts
from .protocols import PROTOCOLS
from .settings import ProbingSettings
from .targets import find_target
from .whitening import Whitening

_BETWEEN_SAVES = 20.0  # seconds, and
_WORTH = 10  # times as long as the last one took: large probes take gigabytes
_PARTS = 20  # of a training, in which errors are kept
_LEAST_SIZE = 1e-4  # of a target: what does not vary but for rounding is not blown up
_WORKING = 12  # times as much as the states of a layer, about, a model takes to make the next ones
# Streams of random numbers of a seed, apart from those that a run was trained on.
_MAIN, _CONTROL, _TEST, _LINEAR, _WEIGHTS, _CONTROL_WEIGHTS = range(101, 107)


class Fit:
    """The probes of one run under one set of settings: of each target, by name, in `probes`, and
    trained with w = 1 in `control` (empty where that is not asked for). `learning` holds the errors
    of `probes` in training, over the target's variance: sums over the steps of each part, [parts,
    layers]."""

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
            name: torch.zeros(parts, layers, device=self.device) for name in self.probes
        }

    def lengths(self, name: str) -> range:
        """The context lengths that a target has probes for."""
        return self.protocol.lengths(self.targets[name], self.points, self.task.dims)

    def tokens_seen(self, name: str) -> Tensor:
        """Which tokens the probe of each length sees, bool [lengths, 2 points]."""
        target = self.targets[name]
        return self.protocol.tokens_seen(target, self.lengths(name), 2 * self.points)

    def train(self) -> None:
        """All steps that are left, saving now and then."""
        done, saved, between = self._resume(), time.monotonic(), _BETWEEN_SAVES
        with Progress(self.settings.steps, "probes", "step", done) as progress:
            for step in range(done, self.settings.steps):
                self._step(step)
                progress.update()
                if time.monotonic() - saved > between:
                    began = time.monotonic()
                    self._save(step + 1)
                    saved = time.monotonic()
                    between = max(_BETWEEN_SAVES, _WORTH * (saved - began))
        self._save(self.settings.steps)

    def test_prompts(self) -> tuple[Prompts, Any]:
        """The prompts that probes are tested on, the same for all runs of a task, and their
        functions."""
        generator = self._generator(0, _TEST)
        return self.task.draw(generator, self.settings.prompts, self.points)

    def linear_prompts(self, batch: int) -> tuple[Prompts, Any]:
        """Prompts number `batch` of those that linear probes are solved from."""
        generator = self._generator(batch, _LINEAR)
        return self.task.draw(generator, self.settings.prompts, self.points)

    def values(self, name: str, prompts: Prompts, parameters: Any) -> Tensor:
        """A target's values [B, lengths, outputs], as the protocol scales them."""
        target = self.targets[name]
        return self.protocol.compute(target, prompts, parameters, self.task).float()

    def predict(self, trainer: ProbeTrainer, name: str, layer: int, states: Tensor) -> Tensor:
        """What probes of a target read in a layer's states: [seeds, lengths, B, outputs]."""
        return trainer.probes.predict(layer, states) * self.sizes[name].to(states.device)

    def states(self, prompts: Prompts) -> Iterator[tuple[int, slice, Tensor]]:
        """The states before the last norm, [some prompts, 2 points, n_embd], layer after layer for
        as many prompts at a time as the memory is for; layer 0 is the read-in. Whitened, where
        the protocol does not take them as they are."""
        for layer, part, states in self._states(prompts):
            yield layer, part, states if self.whitening is None else self.whitening(layer, states)

    def _whitening(self) -> Whitening | None:
        if self.protocol.raw:
            return None
        prompts, _ = self.linear_prompts(0)
        return Whitening.of(
            lambda: ((layer, some) for layer, _, some in self._states(prompts)), self.layers
        )

    @torch.no_grad()
    def _states(self, prompts: Prompts) -> Iterator[tuple[int, slice, Tensor]]:
        states = 4 * 2 * self.points * self.width  # bytes a prompt
        some = max(1, self.settings.memory * 2**20 // (_WORKING * states))
        for first in range(0, len(prompts), some):
            part = slice(first, first + some)
            unrolled = self.model.unroll(prompts[part].to(self.device), self.layers - 1)
            for layer, (state, _) in enumerate(unrolled):
                yield layer, part, state.raw

    def _step(self, step: int) -> None:
        generator = self._generator(step, _MAIN)
        prompts, parameters = self.task.draw(generator, self.settings.batch_size, self.points)
        losses = self._learn(self.probes, prompts, parameters)
        for name, sums in self.learning.items():
            sums[step * len(sums) // self.settings.steps] += losses[name]
        if self.control:
            generator = self._generator(step, _CONTROL)
            batch = self.settings.batch_size
            self._learn(self.control, *control_prompts(self.task, generator, batch, self.points))

    def _learn(
        self, trainers: dict[str, ProbeTrainer], prompts: Prompts, parameters: Any
    ) -> dict[str, Tensor]:
        """A step on these prompts; the mean losses of each target's probes before it, by layer."""
        values = {
            name: (self.values(name, prompts, parameters) / self.sizes[name][:, 0]).to(self.device)
            for name in trainers
        }
        losses = {name: torch.zeros(self.layers, device=self.device) for name in trainers}
        for layer, part, states in self.states(prompts):
            for name, trainer in trainers.items():
                wanted = values[name][part]
                shares = trainer.probes.accumulate(layer, states, wanted, len(prompts))
                losses[name][layer] += shares.mean()
        for trainer in trainers.values():
            trainer.update()
        return losses

    def _size(self, name: str) -> Tensor:
        """What a target is divided by while its probes are trained, [lengths, 1, 1]: its standard
        deviation at each length, so that probes of all lengths learn at one rate."""
        values = self.values(name, *self.linear_prompts(0))
        sizes = values.std(0).mean(-1)[:, None, None].clamp_min(_LEAST_SIZE)
        return torch.ones_like(sizes) if self.protocol.raw else sizes

    def _trainers(self, kind: int) -> dict[str, ProbeTrainer]:
        rate = self.settings.learning_rate or self.protocol.learning_rate
        trainers = {}
        for index, name in enumerate(self.targets):
            probes = Probes(
                self.layers,
                self.settings.seeds,
                self.tokens_seen(name),
                self.width,
                self.outputs(name),
                generator=self._generator(index, kind),
            )
            trainers[name] = ProbeTrainer(probes.to(self.device), rate)
        return trainers

    def outputs(self, name: str) -> int:
        """How many numbers a target is."""
        return self.targets[name].outputs(self.task)

    def _generator(self, step: int, kind: int) -> Generator:
        return step_generator(self.settings.seed, step, kind, torch.device("cpu"))

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
        """Take up the newest good state; the steps it has behind it."""
        checkpoint, _ = newest_checkpoint(self.folder)
        if checkpoint is None:
            return 0

        def of(prefix: str) -> dict[str, Tensor]:
            found = checkpoint.tensors.items()
            return {k.removeprefix(prefix): v for k, v in found if k.startswith(prefix)}

        for kind, trainers in (("probes", self.probes), ("control", self.control)):
            for name, trainer in trainers.items():
                trainer.load(of(f"{kind}/{name}/"))
        for name, sums in self.learning.items():
            sums.copy_(checkpoint.tensors[f"learning/{name}"])
        return checkpoint.step
