"""From a Config to the things it names: task, model, curriculum, and the generators of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

import numpy as np
from torch import Generator, Tensor, device

from reloop.conf.mistakes import ConfigError, one_line
from reloop.conf.schema import Config, GrowthConfig
from reloop.curricula import Curriculum, SampledLoops, Schedule
from reloop.models import Model, ModelSpec
from reloop.tasks import Task, make_task

from .run_folder.checkpoint import CheckpointError

_WEIGHTS, _DATA, _LOOPS = 0, 1, 2  # separate streams of random numbers of one seed


def build_task(config: Config) -> Task:
    """The task; ConfigError where it does not exist or a setting does not fit."""
    task = config.task
    try:
        return make_task(task.name, task.dims, task.distinct_prompts, task.settings)
    except ConfigError as error:
        raise ConfigError("task." + error.key, str(error).removeprefix(error.key + " ")) from None
    except (TypeError, ValueError) as error:
        raise ConfigError("task", str(error)) from None


def build_model(config: Config, task: Task) -> Model:
    """A fresh model on the CPU, its weights a function of the seed."""
    return _model(config, task.classes)


def model_from(config: Config, classes: int, weights: Mapping[str, Tensor]) -> Model:
    """The trained model of a configuration, on the CPU and in eval mode, without its task: of
    that, `classes` is enough. Raises CheckpointError, one line, for weights of another model, or
    that are not finite."""
    model = _model(config, classes)
    try:
        model.load_state_dict(dict(weights))
    except RuntimeError as error:
        reason = one_line(error)
        raise CheckpointError(f"does not fit its configuration: {reason}") from None
    for name, parameter in model.named_parameters():
        if not bool(parameter.isfinite().all()):
            raise CheckpointError(f"has weights that are not finite ({name})")
    return model.eval()


def _model(config: Config, classes: int) -> Model:
    """The one place where a configuration becomes a model."""
    spec = ModelSpec(
        dims=config.task.dims,
        classes=classes,
        loops=trained_loops(config),
        std=config.training.init_std,
        position_std=config.training.position_std,
        **asdict(config.model),
    )
    return Model(spec, _seed(Generator(), config.seed, _WEIGHTS))


def build_curriculum(config: Config, task: Task) -> Curriculum:
    """The curriculum; a tied or standard model always makes all its loops, of which the last counts
    and gradients reach back through all."""
    curriculum, looped = config.curriculum, config.model.family == "looped"
    start = curriculum.dims.start
    if start is not None and start < task.min_dims:
        raise ConfigError("curriculum.dims.start", f"must be at least {task.min_dims}, got {start}")
    return Curriculum(
        dims=_schedule(curriculum.dims, task.dims),
        points=_schedule(curriculum.points, config.task.points),
        loops=_loops(config) if looped else Schedule.constant(trained_loops(config)),
        T=config.loops.T if looped else 1,
        grad_loops=config.loops.grad_loops if looped else "all",
    )


def trained_loops(config: Config) -> int:
    """b: the loops a model is trained to make; a standard model's are its layers."""
    return config.model.n_layer if config.model.family == "standard" else config.loops.b


def step_generator(seed: int, step: int, shard: int, where: device) -> Generator:
    """The source of all random numbers of one shard of one step."""
    return seed_step(Generator(where), seed, step, shard)


def seed_step(generator: Generator, seed: int, step: int, shard: int) -> Generator:
    """Make a generator that is there already the source of one shard of one step."""
    return _seed(generator, seed, _DATA, step, shard)


def _seed(generator: Generator, *entropy: int) -> Generator:
    low, high = np.random.SeedSequence(entropy).generate_state(2)
    return generator.manual_seed(int(low) + (int(high) << 31))


def _loops(config: Config) -> Schedule | SampledLoops:
    """The loops of a looped model: drawn, or growing from the window (unless told) to b."""
    loops = config.loops
    if loops.sampling != "none":
        return SampledLoops(loops.sampling, loops.b, (config.seed, _LOOPS))
    return _schedule(config.curriculum.loops, loops.b, min(loops.T, loops.b))


def _schedule(growth: GrowthConfig, end: int, start: int | None = None) -> Schedule:
    first = growth.start if growth.start is not None else start
    if first is None:
        return Schedule.constant(end)
    return Schedule(first, end, growth.inc, growth.intervals)
