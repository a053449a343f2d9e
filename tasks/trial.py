"""A user's task is tried on a few prompts, before its mistakes cost a training.

try_task(task, points=41, dims={5, 20})
for line in divisor_remark(task): print(line)
"""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Generator, Tensor

from looplab.conf.mistakes import ConfigError
from looplab.conf.plugins import Slip, blamed, is_users, place_of

from .random_source import FreshNumbers
from .task import Task

_FEW = 64  # prompts that a task is tried on
_DRAWING = ("sample", "draw", "prompts")
_PROMPTS = 4096  # that a variance is estimated from


def try_task(task: Task, points: int, dims: Iterable[int]) -> None:
    """Draw prompts of a user's task with these visible dimensions.

    Raises Slip for a divisor that is no number above 0, and for parameters that are not one for
    each prompt. It also does for outputs of another shape or type, that are not finite or differ
    each time, and for changed inputs."""
    cls = type(task)
    if not is_users(cls):
        return
    with blamed(cls, "divisor"):
        divisor: object = task.divisor
    if not (isinstance(divisor, int | float) and 0 < divisor < math.inf):
        raise Slip(cls, f"must be a plain number above 0, got {divisor!r}", "divisor")
    # A task that draws prompts in its own way may want other inputs than normal ones, or none.
    draws_by_itself = any(getattr(cls, name) is not getattr(Task, name) for name in _DRAWING)
    for visible in dims:
        if not draws_by_itself:
            _try_functions(task, points, visible)
        with blamed(cls, "outputs"):
            prompts = task.sample(Generator().manual_seed(0), _FEW, points, visible)
            again = task.sample(Generator().manual_seed(0), _FEW, points, visible)
        if not prompts.ys.isfinite().all():
            raise Slip(cls, "gives values that are not finite", "outputs")
        if not torch.equal(prompts.ys, again.ys):
            problem = "gives other prompts for the same seed: all that is drawn must come from"
            raise Slip(cls, f"{problem} `random`", "parameters")


def _try_functions(task: Task, points: int, visible: int) -> None:
    """Draw functions, their values on normal inputs, and their noise."""
    cls = type(task)
    random = FreshNumbers(Generator().manual_seed(0), _FEW)
    with blamed(cls, "parameters"):
        parameters = task.parameters(random, visible)
    if isinstance(parameters, Tensor) and parameters.shape[:1] != (_FEW,):
        got = f"a tensor [B, …] = [{_FEW}, …], and not {list(parameters.shape)}"
        raise Slip(cls, f"must return one for each prompt, {got}", "parameters")
    xs = random.normal(points, task.dims)
    xs[:, :, visible:].zero_()
    # PyTorch counts changes in place, also those that happen to leave the numbers alike.
    version = xs._version
    with blamed(cls, "outputs"):
        values = task.outputs(xs, parameters)
    _check_values(cls, "outputs", values, xs)
    if xs._version != version:
        raise Slip(cls, "changes xs in place", "outputs")
    with blamed(cls, "noise"):
        observed = task.noise(values, random, visible)
    _check_values(cls, "noise", observed, xs)


def _check_values(cls: type, method: str, ys: Any, xs: Tensor) -> None:
    """Raises Slip for what cannot be the outputs of xs [B, n, d]."""
    got = f"{list(ys.shape)}, {ys.dtype}" if isinstance(ys, Tensor) else type(ys).__name__
    wanted = f"{list(xs.shape[:2])}, {xs.dtype}"
    if got != wanted:
        raise Slip(cls, f"must return a tensor [B, n] = {wanted}, and not {got}", method)
    if not ys.isfinite().all():
        raise Slip(cls, "gives values that are not finite", method)


def divisor_remark(task: Task) -> list[str]:
    """A line where the divisor of a user's regression is not the variance of its outputs, as far as
    these prompts tell."""
    if not is_users(type(task)) or task.loss != "squared_error":
        return []
    try:
        prompts, parameters = task.draw(Generator().manual_seed(0), _PROMPTS, 16)
        ys = task.outputs(prompts.xs, parameters).double()
    except (ConfigError, NotImplementedError):  # a task of data, without a function of x
        return []
    squares = (ys - ys.mean()).square().mean(1)
    variance = float(squares.mean())
    # Of the estimate itself: outputs of one prompt depend on each other, those of prompts do not.
    error = float(squares.std()) / _PROMPTS**0.5
    if abs(variance - task.divisor) <= 0.1 * variance + 4 * error:
        return []
    return [
        f"errors are over {task.divisor:g}, the divisor of task={task.name} "
        f"({place_of(type(task), 'divisor')}), but the variance of its outputs is about "
        f"{variance:.3g}"
    ]
