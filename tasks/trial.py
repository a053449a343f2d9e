"""A user's task is tried on a few prompts, before its mistakes cost a training.

try_task(task, points=41, dims={5, 20})
for line in divisor_remark(task): print(line)
"""

from collections.abc import Iterable
from contextlib import suppress

import torch
from torch import Generator, Tensor

from looplab.conf.mistakes import ConfigError
from looplab.conf.plugins import Slip, blamed, is_users, place_of

from .random_source import FreshNumbers
from .task import Task

_FEW = 64  # prompts that a task is tried on
_PROMPTS = 4096  # that a variance is estimated from


def try_task(task: Task, points: int, dims: Iterable[int]) -> None:
    """Draw prompts of a user's task with these visible dimensions. Raises Slip for parameters that
    are not one for each prompt, outputs that are not finite or differ each time, and changed
    inputs."""
    cls = type(task)
    for visible in dims if is_users(cls) else ():
        with blamed(cls, "parameters"), suppress(NotImplementedError):  # of a task of data
            drawn = task.parameters(FreshNumbers(Generator().manual_seed(0), _FEW), visible)
            if isinstance(drawn, Tensor) and drawn.shape[:1] != (_FEW,):
                got = f"a tensor [B, …] = [{_FEW}, …], and not {list(drawn.shape)}"
                raise Slip(cls, f"must return one for each prompt, {got}", "parameters")
        with blamed(cls, "outputs"):
            (prompts, parameters), (again, _) = (
                task.draw(Generator().manual_seed(0), _FEW, points, visible) for _ in range(2)
            )
        xs = prompts.xs.clone()
        values = prompts.ys
        version = xs._version
        with blamed(cls, "outputs"), suppress(NotImplementedError):
            values = task.outputs(xs, parameters)
        for name, is_wrong, problem in (
            ("outputs", xs._version != version, "changes xs in place"),
            ("outputs", not values.isfinite().all(), "gives values that are not finite"),
            ("noise", not prompts.ys.isfinite().all(), "gives values that are not finite"),
            (
                "parameters",
                not torch.equal(prompts.ys, again.ys),
                "gives other prompts for the same seed: all that is drawn must come from `random`",
            ),
        ):
            if is_wrong:
                raise Slip(cls, problem, name)


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
    error = float(squares.std()) / _PROMPTS**0.5
    if abs(variance - task.divisor) <= 0.1 * variance + 4 * error:
        return []
    return [
        f"errors are over {task.divisor:g}, the divisor of task={task.name} "
        f"({place_of(type(task), 'divisor')}), but the variance of its outputs is about "
        f"{variance:.3g}"
    ]
