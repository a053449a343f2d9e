"""`action=plan` for one run: its size, its floating-point operations, and the hours that they take.

print(plan_of(config)); Flops(config, model, curriculum)(step=1000)
"""

from __future__ import annotations

import time
from collections.abc import Collection
from functools import cache, partial

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
from looplab.training.optim.optimizers import muon_kinds
from looplab.training.progress import Work

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
    threads = torch.get_num_threads()
    return "\n".join(
        [
            f"{config.task.name}: {model.describe()}",
            *_outside(model, vocabulary),
            _amount(config),
            f"{flops:.3g} FLOPs of training: products and attention of every loop"
            + (", Muon's orthogonalisation" if config.training.optimizer == "muon" else ""),
            f"here at least {_hours(flops / rate)}: {rate:.2g} FLOPs a second of large products on "
            f"{threads} threads",
            f"on an NVIDIA H100 about {_hours(flops / _H100)}, at {_H100:.0e} FLOPs a second",
        ]
    )


def _outside(model: Model, vocabulary: int) -> list[str]:
    if not vocabulary:
        return []
    outside = sum(each.numel() for each in model.parameters()) - model.backbone_parameters()
    return [f"{outside:,} parameters in embedding and head, of {vocabulary:,} tokens"]


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


def _hours(seconds: float) -> str:
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
