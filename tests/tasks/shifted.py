"""Prompts under a shift, beside those that they are made from."""

from __future__ import annotations

from typing import Any

from reloop.tasks import SHIFTS, Prompts, Shifted, Task, make_task
from reloop.tasks.random_source import FreshNumbers
from tests.tasks.statistics import generator


def sample(shift: str, task: Task, batch: int = 6, points: int = 9, seed: int = 0) -> Shifted:
    """Prompts under the shift of this name."""
    return SHIFTS[shift].sample(task, generator(seed), batch, points)


def plain(task: Task, batch: int = 6, points: int = 9, seed: int = 0) -> Prompts:
    """The prompts without a shift of the same functions and normal inputs."""
    return task.sample(generator(seed), batch, points)


def functions(task: Task, batch: int = 6, seed: int = 0) -> Any:
    """The parameters behind the prompts of a seed: they are drawn first."""
    return task.parameters(FreshNumbers(generator(seed), batch), task.dims)


def linear(dims: int = 5) -> Task:
    return make_task("linear", dims)


def noisy(std: float = 2.0, dims: int = 5) -> Task:
    return make_task("noisy_linear", dims, settings={"noise_std": std})
