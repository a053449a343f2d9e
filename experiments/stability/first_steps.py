"""The first optimiser steps of a small transformer: the norm of its stream, and the change of its
output by each step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from reloop.training.progress import Progress

from .near_init import Stack, token_model
from .settings import Init
from .tables import Floats

STEPS = 10  # arXiv 2606.18524, Figures 2 and 9
PLACES = {"raw": "before the final norm", "normed": "after the final norm"}
_BETAS = (0.9, 0.95)  # that paper's; it does not give ε: here PyTorch's 1e-8


class FirstSteps(NamedTuple):
    """Root mean squares over tokens and width: of the last stream before the final norm, from
    initialisation on, [steps + 1]; and of its change by each step, before the norm and after it,
    [steps] each."""

    norm: Floats
    raw: Floats
    normed: Floats


def first_steps(init: Init, stack: Stack, seed: int, steps: int = STEPS) -> FirstSteps:
    """Train a new model on its tokens with AdamW, without weight decay, so that only gradients
    change the weights."""
    model, tokens = token_model(init, stack, seed)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=init.learning_rate, betas=_BETAS, weight_decay=0.0, foreach=True
    )
    raws, norms = list[Tensor](), list[Tensor]()
    for step in range(steps + 1):
        with torch.set_grad_enabled(step < steps):
            raw, normed = model(tokens)
        raws.append(raw.detach())
        norms.append(normed.detach())
        if step < steps:
            optimizer.zero_grad()
            model.loss(normed, tokens).backward()
            optimizer.step()
    return FirstSteps(
        _rms(torch.stack(raws)),
        _rms(torch.stack(raws).diff(dim=0)),
        _rms(torch.stack(norms).diff(dim=0)),
    )


def all_first_steps(
    tasks: Iterable[tuple[Init, Stack, int]], seeds: Sequence[int], title: str
) -> list[FirstSteps]:
    """The result of `first_steps` for each init, stack and number of steps, with the seeds as the
    first axis. Shows its progress."""
    task_list = list(tasks)
    # In forward passes of a block; a backward pass counts as two.
    work = [init.layers * stack.loops * (3 * steps + 1) for init, stack, steps in task_list]
    results = []
    with Progress(sum(work) * len(seeds), title, "block") as progress:
        for (init, stack, steps), blocks in zip(task_list, work, strict=True):
            runs = []
            for seed in seeds:
                runs.append(first_steps(init, stack, seed, steps))
                progress.update(blocks)
            results.append(FirstSteps(*(np.stack(parts) for parts in zip(*runs, strict=True))))
    return results


def _rms(states: Tensor) -> Floats:
    """Of states [steps, B, S, n_embd]: [steps]."""
    return states.double().square().mean((1, 2, 3)).sqrt().numpy()
