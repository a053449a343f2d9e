"""`action=plan` says what runs cost, and trains nothing.

Of one run it says size, floating-point operations and the hours they take. Of experiments and grids
it says their runs, how far each is, and the processor time still to come.

print(plan_of(config))
"""

from collections.abc import Sequence
from copy import deepcopy
from functools import cache
from pathlib import Path

import torch
from torch.utils.benchmark import Timer

from looplab.conf.checks.reach import check_reach
from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config
from looplab.evaluation.runs_table import duration
from looplab.models import Model
from looplab.show.tables import Part, Table, document
from looplab.training.assemble import build_task
from looplab.training.curriculum_end import shortened
from looplab.training.jobs import processes_for
from looplab.training.run_folder.checkpoint import saved_steps
from looplab.training.run_folder.run import run_folder
from looplab.training.start import begin_with

from .definition import Member, described
from .flops import shapes_of
from .gpu_time import CARD, RATES, GpuTime, gpu_time
from .many_runs import progress, time_left
from .settings import ExperimentSettings, GridSettings

_SIZE, _SECONDS = 1024, 0.5  # of the products that are timed here
_LEAST = 60  # seconds by FLOPs alone that say something: launches take most of fewer
_MOST_LAYERS = 1000  # of a stack that is built, without weights, to be counted
_TOKENS = 20  # for each parameter (arXiv 2605.18797)


def _shapes_of(config: Config) -> Model:
    """The model of a plan, without weights. Raises ConfigError for one beyond this machine that has
    too many layers to be built, or more numbers than PyTorch can count."""
    model = config.model
    # Too many layers are refused before any of them is built.
    if max(model.n_layer, model.prelude, model.coda) > _MOST_LAYERS:
        check_reach(config)
    try:
        return shapes_of(config)
    except RuntimeError:
        # PyTorch cannot count the numbers: that is beyond any machine.
        check_reach(config)
        raise


def plan_of(config: Config) -> str:
    """Parameters, prompts, FLOPs and hours of a training, as text. Nothing is kept of the few steps
    that may be measured, and no text is read: a byte-pair encoding counts with the vocabulary that
    it is asked for. Raises ConfigError for weights that the training cannot begin with."""
    training = config.training
    points = config.task.points
    model = _shapes_of(config)
    unit = "tokens" if config.task.is_text else "pairs"
    _check_start(config)
    cost = gpu_time(config, model)
    total = training.steps * training.batch_size * points
    prompts = f"{training.batch_size:,} prompts of {points:,} {unit}"
    lines = [f"{config.task.name}: {model.describe()}"]
    if model.spec.vocabulary:
        lines += _vocabulary_lines(model, model.spec.vocabulary, training.batch_size * points)
    lines.append(f"{training.steps:,} steps of {prompts}: {total:,} {unit}")
    lines += shortened([(config, build_task(config))])
    counted = "products and attention of every loop"
    if training.optimizer == "muon":
        counted += ", Muon's orthogonalisation"
    lines.append(f"{cost.flops:.3g} FLOPs of training: {counted}")
    reason = _beyond(config)
    # As a grid's plan has it: a measured step, but of what is planned for GPUs, or is far too long.
    if reason or config.scale == "paper" or config.task.is_text:
        lines.append(_least_here(cost.flops, config.precision))
    else:
        (seconds,) = time_left([config], shipped=False)
        left = f"about {duration(seconds)} of processor time" if seconds else "nothing left"
        lines.append(f"here {left}: {_state_of(config, shipped=False)}")
    lines += _on_gpus([cost])
    if reason:
        lines.append(f"beyond this machine: {reason}")
    return "\n".join(lines)


def _least_here(flops: float, precision: str) -> str:
    """What so many FLOPs take on this processor at least, in words."""
    rate = _products_per_second(precision)
    threads = torch.get_num_threads()
    products = f"{rate:.2g} FLOPs a second of large products on {threads} threads"
    return f"here at least {duration(flops / rate)}: {products}"


def _check_start(config: Config) -> None:
    """Raises ConfigError for weights that a new run cannot begin with."""
    start = config.training.start_from
    if start and not saved_steps(run_folder(config).checkpoints):
        # The model of a shape is one object for all plans, and has no weights to be set.
        begin_with(deepcopy(_shapes_of(config)).to_empty(device="cpu"), start)


def _vocabulary_lines(model: Model, vocabulary: int, tokens: int) -> list[str]:
    """The parameters that a vocabulary costs, and the steps of so many tokens that the rule of
    tokens for each parameter asks for."""
    total = sum(weights.numel() for weights in model.parameters())
    embedding = sum(weights.numel() for weights in model.read_in.parameters())
    outside = total - model.backbone_parameters()
    rule = f"training.steps={_TOKENS * total // tokens:,}"
    without = f"without the embedding's {_TOKENS * (total - embedding) // tokens:,}"
    return [
        f"{outside:,} parameters in embedding and head, of {vocabulary:,} tokens",
        f"{_TOKENS} tokens for each of {total:,} parameters are {rule}, {without}",
    ]


def _beyond(config: Config) -> str:
    """Why a run is beyond this machine; empty where it is not."""
    try:
        check_reach(config)
    except ConfigError as error:
        return str(error)
    return ""


def _on_gpus(costs: Sequence[GpuTime]) -> list[str]:
    """What trainings take on a GPU: a line for those of measured shapes and one for the others,
    none where there is nothing to say."""
    lines = []
    timed = [cost for cost in costs if cost.is_timed]
    seconds = sum(cost.seconds for cost in timed)
    if seconds >= 1:
        precisions = ", ".join(sorted({cost.precision for cost in timed}))
        about = f"on an {CARD} about {duration(seconds)}"
        lines.append(f"{about} in {precisions}, by steps measured there")
    counted = [cost for cost in costs if not cost.is_timed]
    least = sum(cost.seconds for cost in counted)
    if least >= _LEAST:
        rates = sorted({f"{RATES[cost.precision]:.0e} in {cost.precision}" for cost in counted})
        hours = f"at least {duration(least)}, on eight {duration(least / 8)}"
        flops = f"by FLOPs alone: {', '.join(rates)} a second each"
        lines.append(f"on an NVIDIA H100 {hours}, {flops}")
    return lines


@cache
def _products_per_second(precision: str) -> float:
    """FLOPs a second of products on this processor, in bfloat16 where loops are computed in it."""
    dtype = torch.bfloat16 if precision in ("bf16", "mixed") else torch.float32
    a, b = torch.randn(2, _SIZE, _SIZE, dtype=torch.float32).to(dtype)
    timer = Timer("a @ b", globals={"a": a, "b": b}, num_threads=torch.get_num_threads())
    # A product of two matrices takes a multiplication and an addition for each of size³ terms.
    return 2 * _SIZE**3 / timer.blocked_autorange(min_run_time=_SECONDS).median


def plan(settings: ExperimentSettings) -> str:
    """The plan of every experiment's runs, as `_plan` has it."""
    asked = []
    also = []
    for experiment in settings.experiments:
        title = f"{experiment.name}: {experiment.title} ({experiment.source})"
        asked.append((title, settings.members(experiment)))
        if experiment.measure != "evaluation":
            also.append(experiment.name)
    parts = _plan(asked, settings.jobs)
    if also and settings.scale != "paper":
        parts.append(f"not counted: evaluations, and the measurements of {', '.join(also)}")
    return document(parts, settings.tables.format)


def plan_of_grid(title: str, members: Sequence[Member], settings: GridSettings) -> str:
    """The plan of a grid's runs, as `_plan` has it."""
    parts = _plan([(title, members)], settings.jobs or len(settings.devices) or None, shipped=False)
    configs = [member.config for member in members]
    for config in configs:
        _check_start(config)
    parts += shortened([(config, build_task(config)) for config in configs])
    return document(parts, members[0].config.tables.format)


def _plan(
    asked: Sequence[tuple[str, Sequence[Member]]], jobs: int | None, shipped: bool = True
) -> list[Part]:
    """A table of each title's runs, and their sum; each run's time is counted once, in the first
    that wants it. Nothing is trained; a step of each shape may be measured, but at scale=paper,
    whose runs are planned for GPUs. `shipped`: as in `progress`."""
    configs: dict[Path, Config] = {}
    for _, members in asked:
        for member in members:
            # A run that several experiments want is trained once.
            configs.setdefault(run_folder(member.config).path, member.config)
    if any(config.scale == "paper" for config in configs.values()):
        return _on_paper(asked)
    within = {path: config for path, config in configs.items() if not _beyond(config)}
    seconds = dict(zip(within, time_left(list(within.values()), shipped), strict=True))
    parts: list[Part] = []
    seen = set[Path]()
    for title, members in asked:
        rows = []
        for name, member in zip(described(members), members, strict=True):
            path = run_folder(member.config).path
            to_come = ""
            if path not in seconds:
                to_come = "beyond this machine"
            elif seconds[path]:
                to_come = "as above" if path in seen else duration(seconds[path])
            seen.add(path)
            rows.append([name, _state_of(member.config, shipped), to_come])
        parts += [title, Table(["run", "state", "to come"], rows), ""]
    parts.append(_summary(list(configs.values()), list(seconds.values()), jobs))
    return parts


def _state_of(config: Config, shipped: bool) -> str:
    """The state of a run in words: the model that ships for it, or how many steps it has."""
    now = progress(config, shipped)
    if now.path.startswith("shipped/"):
        return f"finished: {now.path}"
    if now.state in ("finished", "new"):
        return now.state
    return f"{now.state}, {now.step:,} of {config.training.steps:,} steps"


def _summary(configs: Sequence[Config], seconds: Sequence[float], jobs: int | None) -> str:
    """The number of runs that are to be trained, and their processor time."""
    total = sum(seconds)
    number = sum(left > 0 for left in seconds)
    processes = processes_for(number, jobs, configs[0]) if configs else 1
    runs = f"{number} of {len(configs)} runs are to be trained"
    summary = f"{runs}: about {duration(total)} of processor time"
    if processes > 1 and total:
        summary += f", {duration(total / processes)} with {processes} at once"
    return summary


def _on_paper(asked: Sequence[tuple[str, Sequence[Member]]]) -> list[Part]:
    """The tokens, FLOPs and hours of a GPU of every run."""
    parts: list[Part] = []
    costs: dict[Path, GpuTime] = {}
    for title, members in asked:
        rows = []
        for name, member in zip(described(members), members, strict=True):
            config = member.config
            training = config.training
            cost = gpu_time(config, _shapes_of(config))
            costs[run_folder(config).path] = cost
            of_prompt = config.task.tokens_of(config.task.points)
            tokens = f"{training.steps * training.batch_size * of_prompt:.3g}"
            hours = duration(cost.seconds) if cost.is_timed else f"≥ {duration(cost.seconds)}"
            rows.append([name, tokens, f"{cost.flops:.3g}", hours])
        parts += [title, Table(["run", "tokens", "FLOPs", "a GPU"], rows), ""]
    flops = sum(cost.flops for cost in costs.values())
    summary = [f"{len(costs)} runs, {flops:.3g} FLOPs"]
    summary += _on_gpus(list(costs.values()))
    parts.append("; ".join(summary))
    return parts
