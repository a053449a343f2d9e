"""`action=plan`: of one run its size, its floating-point operations and the hours they take; of
experiments and grids their runs, how far each is, and the processor time still to come.

print(plan_of(config))
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.utils.benchmark import Timer

from looplab.conf.checks.reach import check_reach
from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config
from looplab.evaluation.tables import Part, Table, document
from looplab.training.assemble import build_curriculum, build_task
from looplab.training.jobs import processes_for
from looplab.training.run_folder.run import run_folder

from .definition import Member, described
from .flops import Flops, shapes_of
from .gpu_time import CARD, RATES, gpu_time
from .many_runs import progress, time_left
from .runs_table import duration
from .settings import ExperimentSettings, GridSettings

_SIZE, _SECONDS = 1024, 0.5  # of the products that are timed here
_LEAST = 60  # seconds by FLOPs alone that say something: launches take most of fewer
_MOST_LAYERS = 64  # of a stack that is built, without weights, to be counted
_TOKENS = 20  # for each parameter (arXiv 2605.18797)


class Cost(NamedTuple):
    """The parameters of a model: all, those of its backbone and of its read-in; the FLOPs of its
    training and its seconds on a GPU, as `gpu_time` has them; and its vocabulary."""

    parameters: int
    backbone: int
    read_in: int
    flops: float
    seconds: float
    is_measured: bool
    precision: str
    vocabulary: int

    def with_more(self, less: "Cost", layers: int) -> "Cost":
        """The numbers with so many layers more, each like the one that `less` does not have."""

        def further(high: float, low: float) -> Any:
            return high + layers * (high - low)

        return self._replace(
            parameters=further(self.parameters, less.parameters),
            backbone=further(self.backbone, less.backbone),
            flops=further(self.flops, less.flops),
            seconds=further(self.seconds, less.seconds),
        )


def cost_of(config: Config) -> Cost:
    """What a training costs: linear in the layers, of which a large number is never built."""
    for stack in ("n_layer", "prelude", "coda"):
        more = getattr(config.model, stack) - _MOST_LAYERS
        if more > 0:
            most = cost_of(_with_layers(config, stack, _MOST_LAYERS))
            less = cost_of(_with_layers(config, stack, _MOST_LAYERS - 1))
            return most.with_more(less, more)
    shapes = shapes_of(config)
    flops = Flops(config, shapes, build_curriculum(config, build_task(config)))
    return Cost(
        sum(weights.numel() for weights in shapes.parameters()),
        shapes.backbone_parameters(),
        sum(weights.numel() for weights in shapes.read_in.parameters()),
        flops(config.training.steps),
        *gpu_time(config, shapes),
        shapes.spec.vocabulary,
    )


def _with_layers(config: Config, stack: str, layers: int) -> Config:
    change: dict[str, Any] = {stack: layers}
    return replace(config, model=replace(config.model, **change))


def plan_of(config: Config) -> str:
    """Parameters, prompts, FLOPs and hours of a training, as text. Nothing is trained and no text
    is read: a byte-pair encoding counts with the vocabulary that it is asked for."""
    training, points, cost = config.training, config.task.points, cost_of(config)
    unit = "tokens" if config.task.is_text else "pairs"
    rate = _products_per_second(config.precision)
    outside = []
    if cost.vocabulary:
        total, step = cost.parameters, training.batch_size * points
        rule, without = (f"{_TOKENS * n // step:,}" for n in (total, total - cost.read_in))
        outside = [
            f"{total - cost.backbone:,} parameters in embedding and head, of {cost.vocabulary:,} "
            "tokens",
            f"{_TOKENS} tokens for each of {total:,} parameters are training.steps={rule}, "
            f"without the embedding's {without}",
        ]
    backbone = f"{cost.backbone:,} parameters in the backbone"
    return "\n".join(
        [
            f"{config.task.name}: {config.model.describe()}, {backbone}",
            *outside,
            f"{training.steps:,} steps of {training.batch_size:,} prompts of {points:,} {unit}: "
            f"{training.steps * training.batch_size * points:,} {unit}",
            f"{cost.flops:.3g} FLOPs of training: products and attention of every loop"
            + (", Muon's orthogonalisation" if training.optimizer == "muon" else ""),
            f"here at least {duration(cost.flops / rate)}: {rate:.2g} FLOPs a second of large "
            f"products on {torch.get_num_threads()} threads",
            *_on_gpus([cost]),
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


def _on_gpus(costs: Sequence[Cost]) -> list[str]:
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
    for path in unique.keys() - within.keys():
        left[path] = cost_of(unique[path]).flops / _products_per_second(unique[path].precision)
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
            to_come = "" if not left[path] else "as above" if path in seen else duration(left[path])
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
    parts, costs = list[Part](), dict[Path, Cost]()
    for title, members in asked:
        rows = []
        for name, member in zip(described(members), members, strict=True):
            config = member.config
            task, training, cost = config.task, config.training, cost_of(config)
            costs[run_folder(config).path] = cost
            points = task.points if task.is_text else 2 * task.points - 1
            tokens = f"{training.steps * training.batch_size * points:.3g}"
            hours = f"{'' if cost.is_measured else '≥ '}{duration(cost.seconds)}"
            rows.append([name, tokens, f"{cost.flops:.3g}", hours])
        parts += [title, Table(["run", "tokens", "FLOPs", "a GPU"], rows), ""]
    flops = sum(cost.flops for cost in costs.values())
    summary = [f"{len(costs)} runs, {flops:.3g} FLOPs", *_on_gpus([*costs.values()])]
    return [*parts, "; ".join(summary)]
