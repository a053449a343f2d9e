"""`action=plan` for one run: its size, its floating-point operations, and the hours that they take.

print(plan_of(config))
"""

from __future__ import annotations

import time

import torch

from reloop.conf.schema import Config
from reloop.models import Model
from reloop.tasks.language.tokens import nominal_vocabulary
from reloop.training.assemble import (
    build_curriculum,
    build_model,
    build_task,
    model_of_vocabulary,
)

from .training_flops import Flops

_H100 = 4e14  # FLOPs a second: two fifths of its dense bfloat16 peak, which good trainings reach
_SIZE, _SECONDS = 1024, 0.5  # of the products that are timed here


def plan_of(config: Config) -> str:
    """Parameters, prompts, FLOPs and hours of a training, as text. Nothing is trained and no text
    is read: a byte-pair encoding counts with the vocabulary that it is asked for."""
    task = build_task(config)
    if config.task.is_text:
        settings = config.task.settings
        vocabulary = nominal_vocabulary(str(settings["tokens"]), int(settings["vocabulary"]))
        model = model_of_vocabulary(config, vocabulary)
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
