"""`action=plan` says what runs cost, and trains nothing.

Of one run it says size, floating-point operations and the hours they take. Of experiments and grids
it says their runs, how far each is, and the processor time still to come.

print(plan_of(config))
"""

from collections.abc import Sequence
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
from looplab.training.run_folder.run import run_folder

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
    if max(model.n_layer, model.prelude, model.coda) > _MOST_LAYERS:
        check_reach(config)
    try:
        return shapes_of(config)
    except RuntimeError:
        check_reach(config)
        raise


def plan_of(config: Config) -> str:
    """Parameters, prompts, FLOPs and hours of a training, as text. Nothing is trained and no text
    is read: a byte-pair encoding counts with the vocabulary that it is asked for."""
    training, points, model = config.training, config.task.points, _shapes_of(config)
    unit = "tokens" if config.task.is_text else "pairs"
    time = gpu_time(config, model)
    rate = _products_per_second(config.precision)
    outside = []
    if vocabulary := model.spec.vocabulary:
        total = sum(weights.numel() for weights in model.parameters())
        embedding = sum(weights.numel() for weights in model.read_in.parameters())
        step = training.batch_size * points
        rule, without = (f"{_TOKENS * n // step:,}" for n in (total, total - embedding))
        outside = [
            f"{total - model.backbone_parameters():,} parameters in embedding and head, of "
            f"{vocabulary:,} tokens",
            f"{_TOKENS} tokens for each of {total:,} parameters are training.steps={rule}, "
            f"without the embedding's {without}",
        ]
    return "\n".join(
        [
            f"{config.task.name}: {model.describe()}",
            *outside,
            f"{training.steps:,} steps of {training.batch_size:,} prompts of {points:,} {unit}: "
            f"{training.steps * training.batch_size * points:,} {unit}",
            *shortened([(config, build_task(config))]),
            f"{time.flops:.3g} FLOPs of training: products and attention of every loop"
            + (", Muon's orthogonalisation" if training.optimizer == "muon" else ""),
            f"here at least {duration(time.flops / rate)}: {rate:.2g} FLOPs a second of large "
            f"products on {torch.get_num_threads()} threads",
            *_on_gpus([time]),
            *([f"beyond this machine: {reason}"] if (reason := _beyond(config)) else []),
        ]
    )


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
    measured = [cost for cost in costs if cost.is_measured]
    if (seconds := sum(cost.seconds for cost in measured)) >= 1:
        precisions = ", ".join(sorted({cost.precision for cost in measured}))
        time = duration(seconds)
        lines += [f"on an {CARD} about {time} in {precisions}, by steps measured there"]
    counted = [cost for cost in costs if not cost.is_measured]
    if (least := sum(cost.seconds for cost in counted)) >= _LEAST:
        rates = sorted({f"{RATES[cost.precision]:.0e} in {cost.precision}" for cost in counted})
        lines += [
            f"on an NVIDIA H100 at least {duration(least)}, on eight {duration(least / 8)}, by "
            f"FLOPs alone: {', '.join(rates)} a second each"
        ]
    return lines


@cache
def _products_per_second(precision: str) -> float:
    """FLOPs a second of products on this processor, in bfloat16 where loops are computed in it."""
    dtype = torch.bfloat16 if precision in ("bf16", "mixed") else torch.float32
    a, b = torch.randn(2, _SIZE, _SIZE, dtype=torch.float32).to(dtype)
    timer = Timer("a @ b", globals={"a": a, "b": b}, num_threads=torch.get_num_threads())
    return 2 * _SIZE**3 / timer.blocked_autorange(min_run_time=_SECONDS).median


def plan(settings: ExperimentSettings) -> str:
    """The plan of every experiment's runs, as `_plan` has it."""
    experiments = settings.experiments
    titles = [f"{each.name}: {each.title} ({each.source})" for each in experiments]
    parts = _plan([*zip(titles, map(settings.members, experiments), strict=True)], settings.jobs)
    also = [each.name for each in experiments if each.measure != "evaluation"]
    if also and settings.scale != "paper":
        parts += [f"not counted: evaluations, and the measurements of {', '.join(also)}"]
    return document(parts, settings.tables.format)


def plan_of_grid(title: str, members: Sequence[Member], settings: GridSettings) -> str:
    """The plan of a grid's runs, as `_plan` has it."""
    parts = _plan([(title, members)], settings.jobs or len(settings.devices) or None, shipped=False)
    configs = [member.config for member in members]
    parts += shortened([(config, build_task(config)) for config in configs])
    return document(parts, members[0].config.tables.format)


def _plan(
    asked: Sequence[tuple[str, Sequence[Member]]], jobs: int | None, shipped: bool = True
) -> list[Part]:
    """A table of each title's runs, and their sum; each run's time is counted once, in the first
    that wants it. Nothing is trained; a step of each shape may be measured, but at scale=paper,
    whose runs are planned for GPUs. `shipped`: as in `progress`."""
    everyone = [member for _, members in asked for member in members]
    if any(member.config.scale == "paper" for member in everyone):
        return _on_paper(asked)
    unique: dict[Path, Config] = {}
    for member in everyone:
        unique.setdefault(run_folder(member.config).path, member.config)
    within = {path: config for path, config in unique.items() if not _beyond(config)}
    left = dict(zip(within, time_left([*within.values()], shipped), strict=True))
    parts, seen = list[Part](), set[Path]()
    for title, members in asked:
        rows = []
        for name, member in zip(described(members), members, strict=True):
            path, now = run_folder(member.config).path, progress(member.config, shipped)
            state = now.state
            if now.path.startswith("shipped/"):
                state = f"finished: {now.path}"
            elif state not in ("finished", "new"):
                state += f", {now.step:,} of {member.config.training.steps:,} steps"
            to_come = ""
            if path not in left:
                to_come = "beyond this machine"
            elif left[path]:
                to_come = "as above" if path in seen else duration(left[path])
            seen.add(path)
            rows.append([name, state, to_come])
        parts += [title, Table(["run", "state", "to come"], rows), ""]
    total, number = sum(left.values()), sum(seconds > 0 for seconds in left.values())
    first = next(iter(unique.values()), None)
    processes = processes_for(number, jobs, first) if first else 1
    summary = f"{number} of {len(unique)} runs are to be trained: about {duration(total)} of "
    summary += "processor time"
    if processes > 1 and total:
        summary += f", {duration(total / processes)} with {processes} at once"
    return [*parts, summary]


def _on_paper(asked: Sequence[tuple[str, Sequence[Member]]]) -> list[Part]:
    """The tokens, FLOPs and hours of a GPU of every run."""
    parts, costs = list[Part](), dict[Path, GpuTime]()
    for title, members in asked:
        rows = []
        for name, member in zip(described(members), members, strict=True):
            config = member.config
            task, training = config.task, config.training
            cost = costs[run_folder(config).path] = gpu_time(config, _shapes_of(config))
            points = task.points if task.is_text else 2 * task.points - 1
            tokens = f"{training.steps * training.batch_size * points:.3g}"
            hours = f"{'' if cost.is_measured else '≥ '}{duration(cost.seconds)}"
            rows.append([name, tokens, f"{cost.flops:.3g}", hours])
        parts += [title, Table(["run", "tokens", "FLOPs", "a GPU"], rows), ""]
    flops = sum(cost.flops for cost in costs.values())
    summary = [f"{len(costs)} runs, {flops:.3g} FLOPs", *_on_gpus([*costs.values()])]
    return [*parts, "; ".join(summary)]
