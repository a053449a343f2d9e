"""`action=plan`: of one run its size, its floating-point operations and the hours they take; of
experiments their runs, how far each is, and the processor time still to come.

print(plan_of(config)); Flops(config, model, curriculum)(step=1000)
"""

from __future__ import annotations

import sys
import time
from collections.abc import Collection, Sequence
from functools import cache, partial
from pathlib import Path

import torch

from looplab.conf.schema import Config
from looplab.curricula import Curriculum, Stage
from looplab.models import Model
from looplab.models.flops import pass_costs
from looplab.tasks.language.tokens import nominal_vocabulary
from looplab.training.assemble import (
    build_curriculum,
    build_model,
    build_task,
    model_of,
)
from looplab.training.jobs import processes_for
from looplab.training.optim.optimizers import muon_kinds
from looplab.training.progress import Work
from looplab.training.run_folder.run import run_folder

from .command import ExperimentSettings
from .definition import Experiment, Member, described
from .many_runs import Estimates, progress

_H100 = 4e14  # FLOPs a second: two fifths of its dense bfloat16 peak, which good trainings reach
_SIZE, _SECONDS = 1024, 0.5  # of the products that are timed here
_ITERATIONS = 5  # of Muon's Newton-Schulz


def plan_of(config: Config) -> str:
    """Parameters, prompts, FLOPs and hours of a training, as text. Nothing is trained and no text
    is read: a byte-pair encoding counts with the vocabulary that it is asked for."""
    task = build_task(config)
    if config.task.is_text:
        settings = config.task.settings
        vocabulary = nominal_vocabulary(str(settings["tokens"]), int(settings["vocabulary"]))
        model = model_of(config, vocabulary=vocabulary)
    else:
        vocabulary, model = 0, build_model(config, task)
    flops = Flops(config, model, build_curriculum(config, task))(config.training.steps)
    rate = _products_per_second()
    number = sum(each.numel() for each in model.parameters()) - model.backbone_parameters()
    outside = f"{number:,} parameters in embedding and head, of {vocabulary:,} tokens"
    threads = torch.get_num_threads()
    return "\n".join(
        [
            f"{config.task.name}: {model.describe()}",
            *([outside] if vocabulary else []),
            _amount(config),
            f"{flops:.3g} FLOPs of training: products and attention of every loop"
            + (", Muon's orthogonalisation" if config.training.optimizer == "muon" else ""),
            f"here at least {_time(flops / rate)}: {rate:.2g} FLOPs a second of large products on "
            f"{threads} threads",
            f"on an NVIDIA H100 about {_time(flops / _H100)}, at {_H100:.0e} FLOPs a second",
        ]
    )


def _amount(config: Config) -> str:
    training, task = config.training, config.task
    prompts = training.steps * training.batch_size
    unit = "tokens" if task.is_text else "pairs"
    amount = (
        f"{training.steps:,} steps of {training.batch_size:,} prompts of {task.points:,} {unit}"
    )
    return f"{amount}: {prompts * task.points:,} {unit}"


def _products_per_second() -> float:
    """FLOPs a second of float32 products on this processor."""
    a, b = torch.randn(2, _SIZE, _SIZE, dtype=torch.float32)
    a @ b
    begin, count = time.perf_counter(), 0
    while (seconds := time.perf_counter() - begin) < _SECONDS:
        a @ b
        count += 1
    return count * 2 * _SIZE**3 / seconds


def plan(settings: ExperimentSettings) -> str:
    """A table of every experiment's runs; each run's time is counted once, in the first experiment
    that wants it. Nothing is trained; a step of each shape may be measured."""
    experiments = settings.experiments
    members = {experiment.name: settings.members(experiment) for experiment in experiments}
    unique: dict[Path, Member] = {}
    for each in members.values():
        for member in each:
            unique.setdefault(run_folder(member.config).path, member)
    configs = [member.config for member in unique.values()]
    say = partial(print, file=sys.stderr, flush=True)
    left = dict(zip(unique, Estimates(configs, say).left(), strict=True))
    lines, seen = [], set[Path]()
    for experiment in experiments:
        lines += ["", *_table(experiment, members[experiment.name], left, seen)]
    total, number = sum(left.values()), sum(seconds > 0 for seconds in left.values())
    processes = processes_for(number, settings.jobs, configs[0]) if configs else 1
    summary = (
        f"{number} of {len(unique)} runs are to be trained: about {_time(total)} of processor time"
    )
    if processes > 1 and total:
        summary += f", {_time(total / processes)} with {processes} at once"
    also = [each.name for each in experiments if each.measure != "evaluation"]
    if also:
        summary += f"; not counted: evaluations, and the measurements of {', '.join(also)}"
    return "\n".join([*lines[1:], "", summary])


def _table(
    experiment: Experiment, members: Sequence[Member], left: dict[Path, float], seen: set[Path]
) -> list[str]:
    lines = [f"{experiment.name}: {experiment.title} ({experiment.source})"]
    for member in members:
        path = run_folder(member.config).path
        now = progress(member.config)
        state = now.state
        if state not in ("finished", "new"):
            state += f", {now.step:,} of {member.config.training.steps:,} steps"
        if now.path.startswith("shipped/"):
            state = f"finished: {now.path}"
        to_come = "" if not left[path] else _time(left[path])
        if path in seen:
            to_come = "as above" if to_come else ""
        seen.add(path)
        lines.append(f"  {described(member, members):60} {state:24} {to_come}".rstrip())
    return lines


def _time(seconds: float) -> str:
    """'40 s', '12 min', '3.4 h' or '1,200 h'."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    hours = seconds / 3600
    return f"{seconds / 60:.0f} min" if hours < 1.5 else f"{hours:,.{int(hours < 100)}f} h"


class Flops:
    """FLOPs of the first `step` steps: matrix products and attention of every loop, twice those of
    the loops that gradients reach back through, the head for each loop in the loss, and Muon's
    orthogonalisation. Norms, activations, Adam, sampling and the computation of targets are not
    counted.
    """

    def __init__(self, config: Config, model: Model, curriculum: Curriculum) -> None:
        self._config, self._costs = config, cache(partial(pass_costs, model))
        self._muon = _muon_flops(model, muon_kinds(config.training))
        self._work = Work(curriculum, config.training.steps, self._step_flops)

    def __call__(self, step: int) -> float:
        """FLOPs of the first `step` steps."""
        return self._work(step) * self._work.total

    def _step_flops(self, stage: Stage) -> float:
        tokens = stage.points if self._config.task.is_text else 2 * stage.points - 1
        costs = self._costs(tokens).of_step(stage.loops, stage.grad_loops, stage.window)
        return self._config.training.batch_size * costs + self._muon


def _muon_flops(model: Model, kinds: Collection[str]) -> float:
    """Of a step's orthogonalisation of all matrices of these kinds."""
    total = 0.0
    for name, role in model.parameter_roles().items():
        if role.kind not in kinds:
            continue
        for rows in role.parts:
            short, long = sorted((rows, model.get_parameter(name).shape[1]))
            total += _ITERATIONS * (4 * short**2 * long + 2 * short**3)
    return total
