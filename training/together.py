"""Several runs of one shape whose steps are one computation, each a run folder of its own.

runs = train_together([replace(config, seed=seed) for seed in (0, 1, 2)])
"""

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn
from torch.func import stack_module_state, vmap

from looplab.conf.build import config_to_mapping, flatten
from looplab.conf.checks.processes import launched
from looplab.conf.mistakes import ConfigError, RunError
from looplab.conf.schema import Config
from looplab.curricula import Stage
from looplab.models.backends import vmap_backend

from .device import place
from .logging import Screen
from .loop import Session, held, memory_errors, train
from .run_folder.run import Run, run_folder
from .signals import Diverged, Interrupted, deferred_signals
from .step import Batch, Trainer

# Settings in which runs that are trained together may differ: each has its own weights, prompts,
# optimiser and weight average.
_MAY_DIFFER = (
    *("seed", "folder", "wandb", "tensorboard", "name", "scale", "recipe"),
    *("evaluation", "figures", "tables"),
    *("training.optimizer", "training.learning_rate", "training.muon_rate", "training.beta1"),
    *("training.beta2", "training.epsilon", "training.weight_decay", "training.clip"),
    *("training.warmup", "training.decay", "training.decay_to", "training.init_std"),
    *("training.position_std", "training.ema_decay", "training.snapshots"),
    *("training.embedding_std", "training.head_std"),
    *("training.embedding_rate", "training.head_rate"),
)
_MOST_VALUES = 2**14  # a thread, in the state of a loop, up to which together is faster


def train_together(configs: Sequence[Config], again: bool = False) -> list[Run | RunError]:
    """Train runs whose models have one shape together: for each the result of `train`, or its
    Diverged, which does not affect the others.

    Configurations may differ in seed, rates, optimiser and the other settings of `_MAY_DIFFER`.
    Each has its own run folder, which a call of `train` can go on with. They are one computation,
    and end with the weights of a single training up to the rounding of batched products. A run at
    an earlier step than the others catches up first. Raises what `train` does, and ConfigError,
    naming the setting, for configurations that cannot be trained together.
    """
    if len(configs) == 1:
        try:
            return [train(configs[0], again)]
        except Diverged as failure:
            return [failure]
    if launched() is not None:
        raise ConfigError("torchrun", "is for one training, not for several together")
    for config in configs[1:]:
        if key := difference(configs[0], config):
            raise ConfigError(key, "cannot differ in runs that are trained together")
    if reason := obstacle(configs[0]):
        raise ConfigError("together", f"cannot be: {reason}")
    sessions = [Session(config, again=again) for config in configs]
    if len({session.folder.path for session in sessions}) < len(sessions):
        raise ConfigError("seed", "must differ, or another setting, in runs trained together")
    failures: dict[Session, Diverged] = {}
    with held(sessions, again):
        for session in sessions:
            session.begin()
        stops = sorted({configs[0].training.steps, *(session.step for session in sessions)})
        with deferred_signals() as signals, memory_errors(sessions[0].folder.path):
            for stop_at in stops:  # the runs behind catch up first
                while group := [s for s in sessions if s.step < stop_at and s not in failures]:
                    failures |= _make_steps(group, stop_at, signals)
    return [failures.get(session) or session.run() for session in sessions]


def _make_steps(
    group: Sequence[Session], stop_at: int, signals: Sequence[int]
) -> dict[Session, Diverged]:
    """The loop of `train` for runs at the same step, up to `stop_at` or until some diverge, which
    are returned."""
    trainers, training = [session.trainer for session in group], group[0].config.training
    trainer = trainers[0] if len(group) == 1 else Ensemble(trainers)
    step, curriculum = group[0].step, trainers[0].curriculum
    failures: dict[Session, Diverged] = {}
    for session in group:
        session.count_time(1 / len(group))
    with Screen(training.steps, step, curriculum, shown=True) as screen:
        while step < stop_at and not failures:
            trainer.update(step)
            step += 1
            for session in group:
                session.step = step
            screen.tick()
            signal = signals[0] if signals else 0
            pause = signal != 0 or step == training.steps
            save = pause or step % training.checkpoint_every == 0
            if save or any(session.logs_now() for session in group):
                found = []
                for session in group:
                    try:
                        found.append(session.record(save, pause))
                    except Diverged as failure:
                        failures[session] = failure
                if found:
                    screen.write(step, curriculum(step - 1), found)
            if signal:
                raise Interrupted(signal, step)
    for session in group:
        session.count_time(0)
    return failures


class Ensemble:
    """Trainers that share task, model's shape, curriculum, batch and steps. Losses and gradients of
    all are computed in one pass over stacked weights; clipping, optimiser, average and totals are
    each trainer's own, so that a member ends as it would alone, up to the rounding of batched
    products, and can go on alone.

    The configurations must be such that there is no `difference` and no `obstacle`.
    """

    def __init__(self, trainers: Sequence[Trainer]) -> None:
        self.trainers = list(trainers)
        models = [trainer.model for trainer in self.trainers]
        self._weights, _ = stack_module_state(cast(list[nn.Module], models))
        named = [dict(model.named_parameters()) for model in models]
        # For each stacked weight, every member's parameter, which is made a view of it.
        self._views = [
            (weights, [parameters[name] for parameters in named])
            for name, weights in self._weights.items()
        ]
        for weights, views in self._views:
            for view, data in zip(views, weights.detach(), strict=True):
                view.data = data

    def update(self, step: int) -> None:
        """Make step `step` with every trainer."""
        first = self.trainers[0]
        stage, shards = first.curriculum(step), first.config.training.shards
        for trainer in self.trainers:
            trainer.prepare(step)
        for weights in self._weights.values():
            weights.grad = None
        size = (len(self.trainers), len(first.values))
        values = torch.zeros(size, device=first.device, dtype=torch.float32)
        for shard in range(shards):
            objectives, shard_values = self._losses(stage, shard)
            (objectives / shards).sum().backward()
            values += shard_values / shards
        for weights, views in self._views:
            gradients = [None] * len(views) if weights.grad is None else weights.grad
            for view, gradient in zip(views, gradients, strict=True):
                view.grad = gradient
        for index, trainer in enumerate(self.trainers):
            trainer.apply(values[index])

    def _losses(self, stage: Stage, shard: int) -> tuple[Tensor, Tensor]:
        """Each member's objective on its own batch, [members], and the values of its losses,
        [members, values]."""
        first = self.trainers[0]
        batches = [trainer.batch(stage, shard) for trainer in self.trainers]
        noises = [batch.noise for batch in batches if batch.noise is not None]  # of all, or of none
        stacked = Batch(
            torch.stack([batch.xs for batch in batches]),
            torch.stack([batch.ys for batch in batches]),
            torch.stack([batch.targets for batch in batches]),
            torch.stack(noises) if noises else None,
        )

        def losses(weights: dict[str, Tensor], batch: Batch) -> tuple[Tensor, Tensor]:
            return first.losses(stage, batch, weights)

        with vmap_backend(first.model):
            in_dims = (0, Batch(0, 0, 0, 0 if noises else None))  # type: ignore[arg-type]
            return vmap(losses, in_dims)(self._weights, stacked)


def difference(first: Config, other: Config) -> str:
    """The first setting in which two configurations differ but runs that are trained together may
    not; '' where there is none."""
    first_values, other_values = (flatten(config_to_mapping(config)) for config in (first, other))
    for key in first_values | other_values:
        may_differ = any(key == name or key.startswith(f"{name}.") for name in _MAY_DIFFER)
        if not may_differ and first_values.get(key) != other_values.get(key):
            return key
    return ""


def groups(configs: Sequence[Config], only_if_faster: bool) -> list[list[int]]:
    """The indices of configurations that can be trained together, in groups of two or more; with
    `only_if_faster`, where that takes less time than one after another. Of those with one run
    folder, as two that differ in the evaluation alone, the first is in a group."""
    found: list[list[int]] = []
    folders: set[Path] = set()
    for index, config in enumerate(configs):
        folder = run_folder(config).path
        if folder in folders or obstacle(config) or (only_if_faster and not faster(config)):
            continue
        folders.add(folder)
        for group in found:
            if not difference(configs[group[0]], config):
                group.append(index)
                break
        else:
            found.append([index])
    return [group for group in found if len(group) > 1]


def faster(config: Config) -> bool:
    """Return whether runs of this configuration are known to take less time together than one after
    another.

    On a CPU that depends on the size of a loop's state, batch x tokens x width, and on the threads
    (docs/log.md has the measurement). On a GPU it has not been measured: no.
    """
    tokens = config.training.batch_size * 2 * config.task.points
    on_cpu = place(config.device, config.precision, config.backend).device.type == "cpu"
    return on_cpu and tokens * config.model.n_embd <= _MOST_VALUES * torch.get_num_threads()


def obstacle(config: Config) -> str:
    """Say why runs of this configuration cannot be trained together; '' where they can."""
    if config.loops.sampling != "none":
        return "loops drawn for each step differ between seeds"
    if config.training.recompute:
        return "training.recompute computes each run's loops twice"
    return (
        "loops.stop_at ends the loops of each run by its own states" if config.loops.stop_at else ""
    )
