"""`action=plan`: of one run its size, its floating-point operations and the hours they take; of
experiments and grids their runs, how far each is, and the processor time still to come.

print(plan_of(config))
"""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch.utils.benchmark import Timer

from looplab.conf.schema import Config
from looplab.evaluation.tables import Part, Table, document
from looplab.models import Model
from looplab.training.assemble import build_curriculum, build_task
from looplab.training.jobs import processes_for
from looplab.training.run_folder.run import run_folder

from .definition import Member, described
from .flops import Flops, shapes_of
from .gpu_time import CARD, RATES, GpuTime, gpu_time
from .many_runs import progress, time_left
from .runs_table import duration
from .settings import ExperimentSettings, GridSettings

_SIZE, _SECONDS = 1024, 0.5  # of the products that are timed here
_LEAST = 60  # seconds by FLOPs alone that say something: launches take most of fewer
_TOKENS = 20  # for each parameter (arXiv 2605.18797)


def plan_of(config: Config) -> str:
    """Parameters, prompts, FLOPs and hours of a training, as text. Nothing is trained and no text
    is read: a byte-pair encoding counts with the vocabulary that it is asked for."""
    training, points, model = config.training, config.task.points, shapes_of(config)
    unit = "tokens" if config.task.is_text else "pairs"
    flops, rate = _flops(config, model), _products_per_second()
    outside = []
    if vocabulary := model.spec.vocabulary:
        total = sum(each.numel() for each in model.parameters())
        number = total - model.backbone_parameters()
        step = training.batch_size * points
        rule, without = (
            f"{_TOKENS * n // step:,}" for n in (total, total - model.read_in.weight.numel())
        )
        outside = [
            f"{number:,} parameters in embedding and head, of {vocabulary:,} tokens",
            f"{_TOKENS} tokens for each of {total:,} parameters are training.steps={rule}, "
            f"without the embedding's {without}",
        ]
    return "\n".join(
        [
            f"{config.task.name}: {model.describe()}",
            *outside,
            f"{training.steps:,} steps of {training.batch_size:,} prompts of {points:,} {unit}: "
            f"{training.steps * training.batch_size * points:,} {unit}",
            f"{flops:.3g} FLOPs of training: products and attention of every loop"
            + (", Muon's orthogonalisation" if training.optimizer == "muon" else ""),
            f"here at least {duration(flops / rate)}: {rate:.2g} FLOPs a second of large products "
            f"on {torch.get_num_threads()} threads",
            *_on_gpus([gpu_time(config, model)]),
        ]
    )


def _flops(config: Config, model: Model) -> float:
    """FLOPs of a whole training."""
    return Flops(config, model, build_curriculum(config, build_task(config)))(config.training.steps)


def _on_gpus(times: Sequence[GpuTime]) -> list[str]:
    """What trainings take on a GPU: a line for those of measured shapes and one for the others,
    none where there is nothing to say."""
    lines = []
    measured = [time for time in times if time.is_measured]
    if (seconds := sum(time.seconds for time in measured)) >= 1:
        precisions = ", ".join(sorted({time.precision for time in measured}))
        lines += [
            f"on an {CARD} about {duration(seconds)} in {precisions}, by steps measured there"
        ]
    counted = [time for time in times if not time.is_measured]
    if (least := sum(time.seconds for time in counted)) >= _LEAST:
        rates = sorted({f"{RATES[time.precision]:.0e} in {time.precision}" for time in counted})
        lines += [
            f"on an NVIDIA H100 at least {duration(least)}, on eight {duration(least / 8)}, by "
            f"FLOPs alone: {', '.join(rates)} a second each"
        ]
    return lines


def _products_per_second() -> float:
    """FLOPs a second of float32 products on this processor."""
    a, b = torch.randn(2, _SIZE, _SIZE, dtype=torch.float32)
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
    left = dict(zip(unique, time_left([*unique.values()], shipped), strict=True))
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
    parts, total, runs = list[Part](), 0.0, dict[Path, GpuTime]()
    for title, members in asked:
        rows = []
        for name, member in zip(described(members), members, strict=True):
            config, path = member.config, run_folder(member.config).path
            task, training, model = config.task, config.training, shapes_of(config)
            points = task.points if task.is_text else 2 * task.points - 1
            flops, time = _flops(config, model), gpu_time(config, model)
            total += flops * (path not in runs)
            runs[path] = time
            tokens = f"{training.steps * training.batch_size * points:.3g}"
            hours = f"{'' if time.is_measured else '≥ '}{duration(time.seconds)}"
            rows.append([name, tokens, f"{flops:.3g}", hours])
        parts += [title, Table(["run", "tokens", "FLOPs", "a GPU"], rows), ""]
    summary = [f"{len(runs)} runs, {total:.3g} FLOPs", *_on_gpus([*runs.values()])]
    return [*parts, "; ".join(summary)]
