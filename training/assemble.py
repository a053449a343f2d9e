"""Task, model, curriculum and random generators of a Config."""

from collections.abc import Mapping
from dataclasses import asdict, replace

import numpy as np
import torch
from torch import Generator, Tensor, device

from looplab.conf.mistakes import CheckpointError, ConfigError
from looplab.conf.plugins import Slip, is_users
from looplab.conf.schema import Config, GrowthConfig
from looplab.curricula import Curriculum, SampledLoops, Schedule, Stage
from looplab.models import Model, ModelSpec
from looplab.models.loops.trial import try_loop
from looplab.tasks import Task, make_task
from looplab.tasks.trial import try_task

# Separate random streams of one seed.
_WEIGHTS = 0
_DATA = 1
_LOOPS = 2


def build_task(config: Config) -> Task:
    """The task, one of a user's tried on a few prompts; ConfigError for an unknown task or an
    invalid setting."""
    task = config.task
    try:
        made = make_task(
            task.name, task.dims, task.distinct_prompts, task.settings, task.distinct_functions
        )
        # At the fewest dimensions of the curriculum and at all of them.
        try_task(made, task.points, {config.curriculum.dims.start or task.dims, task.dims})
        return made
    except Slip:
        raise
    except ConfigError as error:
        raise ConfigError("task." + error.key, str(error).removeprefix(error.key + " ")) from None
    except (TypeError, ValueError) as error:
        raise ConfigError("task", str(error)) from None


def build_model(config: Config, task: Task) -> Model:
    """A new model on the CPU, whose weights are a function of the seed; a user's loop is tried."""
    model = model_of(config, task.classes, task.data.vocabulary)
    if is_users(type(model.loop)):
        try_loop(model, task.sample(Generator().manual_seed(0), 2, config.task.points))
    return model


def spec_of(config: Config, classes: int = 0, vocabulary: int = 0) -> ModelSpec:
    """The shape of a model for a task of so many classes, or a text of so many tokens."""
    return ModelSpec(
        dims=config.task.dims,
        classes=classes,
        vocabulary=vocabulary,
        loops=trained_loops(config),
        std=config.training.init_std,
        position_std=config.training.position_std,
        embedding_std=config.training.embedding_std,
        head_std=config.training.head_std,
        previous_token_head=config.training.previous_token_head,
        halts=config.loops.halt is not None,
        **asdict(config.model),
    )


def model_of(config: Config, classes: int = 0, vocabulary: int = 0) -> Model:
    """A new model for a task of so many classes, or a text of so many tokens."""
    spec = spec_of(config, classes, vocabulary)
    model = Model(spec, _seed(Generator(), config.seed, _WEIGHTS))
    if config.training.embedding_dtype == "bfloat16":
        # After its weights were drawn: the same numbers as in float32, rounded.
        model.read_in.to(torch.bfloat16)
    return model


def model_from(
    config: Config, classes: int, weights: Mapping[str, Tensor], vocabulary: int = 0
) -> Model:
    """A trained model, on the CPU and in eval mode, for a task of so many classes or a text of so
    many tokens. Raises CheckpointError for weights of another model, or that are not finite."""
    model = model_of(config, classes, vocabulary)
    if problem := misfit(model, weights):
        raise CheckpointError(f"does not fit its configuration: {problem}")
    model.load_state_dict(dict(weights))
    for name, parameter in model.named_parameters():
        if not bool(parameter.isfinite().all()):
            raise CheckpointError(f"has weights that are not finite ({name})")
    return model.eval()


def misfit(model: Model, weights: Mapping[str, Tensor]) -> str:
    """The first weight whose shape is another than the model's, in words; empty where all fit."""
    here = {name: [*tensor.shape] for name, tensor in model.state_dict().items()}
    there = {name: [*tensor.shape] for name, tensor in weights.items()}
    for name in here | there:
        if here.get(name) != there.get(name):
            ours = here.get(name, "absent")
            theirs = there.get(name, "absent")
            return f"{name} is {theirs} there and {ours} here"
    return ""


def build_curriculum(config: Config, task: Task) -> Curriculum:
    """The curriculum; a tied or standard model always makes all its loops, with the last in the
    loss and gradients through all."""
    curriculum = config.curriculum
    looped = config.model.family == "looped"
    return Curriculum(
        dims=_schedule(curriculum.dims, task.dims),
        points=_schedule(curriculum.points, config.task.points),
        loops=_loops(config) if looped else Schedule.constant(trained_loops(config)),
        T=config.loops.T if looped else 1,
        grad_loops=config.loops.grad_loops if looped else "all",
    )


def last_stage(config: Config, task: Task) -> Stage:
    """The stage of the last step; where loops are drawn anew at each step, one of b loops."""
    curriculum = build_curriculum(config, task)
    if config.loops.sampling != "none":
        curriculum = replace(curriculum, loops=Schedule.constant(config.loops.b))
    return curriculum(max(config.training.steps - 1, 0))


def trained_loops(config: Config) -> int:
    """b, the number of loops in training; for a standard model, its layers."""
    return config.model.n_layer if config.model.family == "standard" else config.loops.b


def step_generator(seed: int, step: int, shard: int, target: device) -> Generator:
    """The source of all random numbers of one shard of one step."""
    return seed_step(Generator(target), seed, step, shard)


def seed_step(generator: Generator, seed: int, step: int, shard: int) -> Generator:
    """Seed an existing generator for one shard of one step."""
    return _seed(generator, seed, _DATA, step, shard)


def _seed(generator: Generator, *entropy: int) -> Generator:
    # A hash of all these numbers: those that differ by one have unrelated streams.
    low, high = np.random.SeedSequence(entropy).generate_state(2)
    return generator.manual_seed(int(low) + (int(high) << 31))


def _loops(config: Config) -> Schedule | SampledLoops:
    """The loops of a looped model: sampled, or growing to b from `start`, by default the window."""
    loops = config.loops
    if loops.sampling != "none":
        return SampledLoops(loops.sampling, loops.b, (config.seed, _LOOPS), loops.least)
    return _schedule(config.curriculum.loops, loops.b, min(loops.T, loops.b))


def _schedule(growth: GrowthConfig, end: int, start: int | None = None) -> Schedule:
    first = growth.start if growth.start is not None else start
    if first is None:
        return Schedule.constant(end)
    return Schedule(first, end, growth.inc, growth.intervals)
