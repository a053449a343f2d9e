"""`action=plan`: of one run its size, its floating-point operations and the hours they take; of
experiments their runs, how far each is, and the processor time still to come.

print(plan_of(config)); Flops(config, model, curriculum)(step=1000)
"""

from functools import cache, partial
from pathlib import Path

import torch
from torch.utils.benchmark import Timer

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

from .definition import described
from .many_runs import Estimates, progress
from .runs_table import duration
from .settings import ExperimentSettings

_H100 = 4e14  # FLOPs a second: two fifths of its dense bfloat16 peak, which good trainings reach
_SIZE, _SECONDS = 1024, 0.5  # of the products that are timed here
_ITERATIONS = 5  # of Muon's Newton-Schulz


def plan_of(config: Config) -> str:
    """Parameters, prompts, FLOPs and hours of a training, as text. Nothing is trained and no text
    is read: a byte-pair encoding counts with the vocabulary that it is asked for."""
    task, training, points = build_task(config), config.training, config.task.points
    if config.task.is_text:
        settings, unit = config.task.settings, "tokens"
        vocabulary = nominal_vocabulary(str(settings["tokens"]), int(settings["vocabulary"]))
        model = model_of(config, vocabulary=vocabulary)
    else:
        unit, vocabulary, model = "pairs", 0, build_model(config, task)
    flops = Flops(config, model, build_curriculum(config, task))(training.steps)
    rate = _products_per_second()
    number = sum(each.numel() for each in model.parameters()) - model.backbone_parameters()
    outside = f"{number:,} parameters in embedding and head, of {vocabulary:,} tokens"
    return "\n".join(
        [
            f"{config.task.name}: {model.describe()}",
            *([outside] if vocabulary else []),
            f"{training.steps:,} steps of {training.batch_size:,} prompts of {points:,} {unit}: "
            f"{training.steps * training.batch_size * points:,} {unit}",
            f"{flops:.3g} FLOPs of training: products and attention of every loop"
            + (", Muon's orthogonalisation" if training.optimizer == "muon" else ""),
            f"here at least {duration(flops / rate)}: {rate:.2g} FLOPs a second of large products "
            f"on {torch.get_num_threads()} threads",
            f"on an NVIDIA H100 about {duration(flops / _H100)}, at {_H100:.0e} FLOPs a second",
        ]
    )


def _products_per_second() -> float:
    """FLOPs a second of float32 products on this processor."""
    a, b = torch.randn(2, _SIZE, _SIZE, dtype=torch.float32)
    timer = Timer("a @ b", globals={"a": a, "b": b}, num_threads=torch.get_num_threads())
    return 2 * _SIZE**3 / timer.blocked_autorange(min_run_time=_SECONDS).median


def plan(settings: ExperimentSettings) -> str:
    """A table of every experiment's runs; each run's time is counted once, in the first experiment
    that wants it. Nothing is trained; a step of each shape may be measured."""
    asked = [(experiment, settings.members(experiment)) for experiment in settings.experiments]
    unique: dict[Path, Config] = {}
    for member in (each for _, members in asked for each in members):
        unique.setdefault(run_folder(member.config).path, member.config)
    left = dict(zip(unique, Estimates([*unique.values()]).left(), strict=True))
    lines, seen = [], set[Path]()
    for experiment, members in asked:
        lines += ["", f"{experiment.name}: {experiment.title} ({experiment.source})"]
        for name, member in zip(described(members), members, strict=True):
            path, now = run_folder(member.config).path, progress(member.config)
            state = now.state
            if now.path.startswith("shipped/"):
                state = f"finished: {now.path}"
            elif state not in ("finished", "new"):
                state += f", {now.step:,} of {member.config.training.steps:,} steps"
            to_come = "" if not left[path] else "as above" if path in seen else duration(left[path])
            seen.add(path)
            lines.append(f"  {name:60} {state:24} {to_come}".rstrip())
    total, number = sum(left.values()), sum(seconds > 0 for seconds in left.values())
    first = next(iter(unique.values()), None)
    processes = processes_for(number, settings.jobs, first) if first else 1
    summary = f"{number} of {len(unique)} runs are to be trained: about {duration(total)} of "
    summary += "processor time"
    if processes > 1 and total:
        summary += f", {duration(total / processes)} with {processes} at once"
    also = [each.name for each, _ in asked if each.measure != "evaluation"]
    if also:
        summary += f"; not counted: evaluations, and the measurements of {', '.join(also)}"
    return "\n".join([*lines[1:], "", summary])


class Flops:
    """FLOPs of the first `step` steps: matrix products and attention of every loop, twice those of
    the loops that gradients reach back through, the head for each loop in the loss, and Muon's
    orthogonalisation. Norms, activations, Adam, sampling and the computation of targets are not
    counted.
    """

    def __init__(self, config: Config, model: Model, curriculum: Curriculum) -> None:
        self._config, self._costs = config, cache(partial(pass_costs, model))
        self._muon = 0.0  # of a step's orthogonalisation of all matrices
        kinds = muon_kinds(config.training)
        for name, role in model.parameter_roles().items():
            for rows in role.parts if role.kind in kinds else ():
                short, long = sorted((rows, model.get_parameter(name).shape[1]))
                self._muon += _ITERATIONS * (4 * short**2 * long + 2 * short**3)
        self._work = Work(curriculum, config.training.steps, self._step_flops)

    def __call__(self, step: int) -> float:
        """FLOPs of the first `step` steps."""
        return self._work(step) * self._work.total

    def _step_flops(self, stage: Stage) -> float:
        tokens = stage.points if self._config.task.is_text else 2 * stage.points - 1
        costs = self._costs(tokens).of_step(stage.loops, stage.grad_loops, stage.window)
        return self._config.training.batch_size * costs + self._muon
