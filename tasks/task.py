"""A task: a function class, how to sample prompts from it, and the unit of its error; and a batch
of prompts.

task = make_task("sparse_linear", dims=20, settings={"sparsity": 3})
prompts = task.sample(torch.Generator().manual_seed(0), batch=64, points=41, dims=5)
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, ClassVar, TypeVar

import torch
from torch import Generator, Tensor

from looplab.conf.checks.config import check_setting
from looplab.conf.files import read_values
from looplab.conf.mistakes import ConfigError, nearest
from looplab.conf.plugins import add_task

from .data import Data
from .random_source import FreshNumbers, NumberedPrompts, RandomSource

_FAMILY = 0x5EED  # the family of numbered prompts that `distinct_prompts` is a part of
_FUNCTIONS = 0xF00D  # the family whose functions `distinct_functions` draws from
_REGISTRY: dict[str, type[Task]] = {}
_AnyTask = TypeVar("_AnyTask", bound="type[Task]")


@dataclass(frozen=True)
class Prompts:
    """Inputs `xs` of shape [B, n, d] and their outputs `ys` of shape [B, n]; or tokens of a text,
    both [B, n], the outputs being the tokens after the inputs.

    A prompt of n pairs poses n questions at once: y_i is to be predicted from x_i and the i pairs
    before it. Raises ValueError where the shapes do not fit together.
    """

    xs: Tensor
    ys: Tensor

    def __post_init__(self) -> None:
        is_text = self.xs.ndim == 2 and self.xs.dtype == torch.int64
        if not (is_text or self.xs.ndim == 3) or self.ys.shape != self.xs.shape[:2]:
            raise ValueError(
                "prompts need xs [B, n, d] and ys [B, n], or int64 tokens as both, "
                f"got xs {list(self.xs.shape)} and ys {list(self.ys.shape)}"
            )

    def __len__(self) -> int:
        return len(self.xs)

    def __getitem__(self, index: slice) -> Prompts:
        return Prompts(self.xs[index], self.ys[index])

    def to(self, device: object) -> Prompts:
        """Return the same prompts on another device."""
        return Prompts(self.xs.to(device), self.ys.to(device))  # type: ignore[call-overload]


@dataclass(frozen=True)
class Task(ABC):
    """A function class over inputs of `dims` dimensions.

    A subclass adds its settings as fields, samples its parameters (`parameters`) and maps inputs to
    outputs (`outputs`). With `distinct_prompts` = N > 0 there are only N prompts: prompt j has the
    same numbers whenever it is sampled. With `distinct_functions` = N > 0 there are only N
    functions, each as likely, and endless prompts of them.
    """

    dims: int
    distinct_prompts: int = 0
    distinct_functions: int = 0

    name: ClassVar[str]  # given by `register_task`
    # Or "cross_entropy", with `classes` = 2 outputs, or "next_token", of a text.
    loss: ClassVar[str] = "squared_error"
    classes: ClassVar[int] = 0
    is_text: ClassVar[bool] = False  # prompts are tokens of a text instead of pairs
    left_padded: ClassVar[bool] = False  # inputs with fewer features are in the last dimensions
    baselines: ClassVar[tuple[str, ...]] = ("least_squares", "averaging", "nearest_neighbours")

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            check_setting(field.name, float(value) if field.type in (float, "float") else value)
        divisor: object = self.divisor
        if not (isinstance(divisor, int | float) and divisor > 0):
            raise ConfigError("divisor", f"must be a plain number above 0, got {divisor!r}")

    @property
    @abstractmethod
    def divisor(self) -> float:
        """The divisor of squared errors: the variance of y without noise."""

    @abstractmethod
    def parameters(self, random: RandomSource, dims: int) -> Any:
        """One function for each prompt, which depends on the first `dims` dimensions alone."""

    @abstractmethod
    def outputs(self, xs: Tensor, parameters: Any) -> Tensor:
        """The functions' values [B, n] at xs [B, n, d]."""

    @property
    def labels(self) -> tuple[float, float]:
        """The values of class 0 and class 1 in a prompt's ys, for a task with classes."""
        return -1.0, 1.0

    @property
    def data(self) -> Data:
        """The files that prompts are made of."""
        return Data()

    def for_evaluation(self) -> Task:
        """The task whose prompts a model of this one is evaluated on: the endless set, also for a
        model that was trained on finitely many prompts or functions."""
        return replace(self, distinct_prompts=0, distinct_functions=0)

    def summary(self, errors: Tensor, ys: Tensor) -> dict[str, float]:
        """The errors [B, n] of predictions of ys as one number, by its name: here the last query's,
        over the divisor."""
        return {"error": float(errors[:, -1].mean()) / self.divisor}

    def functions(self) -> Any:
        """The parameters of all of its `distinct_functions` functions, as `parameters` returns
        them."""
        return self.parameters(
            NumberedPrompts(torch.arange(self.distinct_functions), _FUNCTIONS), self.dims
        )

    def noise(self, ys: Tensor, random: RandomSource, dims: int) -> Tensor:
        """The observed outputs, from the values ys [B, n]; by default ys itself."""
        return ys

    def posterior_mean(self, prompts: Prompts, dims: int) -> Tensor:
        """E[y_i | the pairs before, x_i], [B, n], of this task's prompts with `dims` visible
        dimensions; only for a task whose `no_posterior_mean` is empty."""
        raise NotImplementedError(self.no_posterior_mean())

    def no_posterior_mean(self) -> str:
        """The reason why this task has no posterior means; empty for one that has."""
        return f"task {self.name} does not know its posterior mean"

    def sample(
        self, generator: Generator, batch: int, points: int, dims: int | None = None
    ) -> Prompts:
        """Sample `batch` prompts of `points` pairs on the generator's device.

        Only the first `dims` dimensions are visible: the others are zero in x and do not affect y.
        """
        return self.draw(generator, batch, points, dims)[0]

    def draw(
        self, generator: Generator, batch: int, points: int, dims: int | None = None
    ) -> tuple[Prompts, Any]:
        """The prompts of `sample` and the parameters of their functions, as `parameters` returns
        them."""
        dims = self.dims if dims is None else dims
        random: RandomSource = FreshNumbers(generator, batch)
        count = self.distinct_prompts or self.distinct_functions
        numbered = random
        if count:
            index = torch.randint(count, (batch,), generator=generator, device=generator.device)
            numbered = NumberedPrompts(index, _FAMILY if self.distinct_prompts else _FUNCTIONS)
        if self.distinct_prompts:
            random = numbered
        parameters = self.parameters(numbered, dims)
        return self.prompts(parameters, random, points, dims), parameters

    def prompts(self, parameters: Any, random: RandomSource, points: int, dims: int) -> Prompts:
        """Prompts of `points` pairs of given functions, in the first `dims` dimensions. Raises
        ConfigError, which names the class and its file, for outputs of another shape or type."""
        xs = random.normal(points, self.dims)
        xs[:, :, dims:].zero_()
        ys = self._checked(xs, "outputs", self.outputs(xs, parameters))
        return Prompts(xs, self._checked(xs, "noise", self.noise(ys, random, dims)))

    def _checked(self, xs: Tensor, method: str, ys: Tensor) -> Tensor:
        """Return what a method of a subclass returned for xs [B, n, d], if that can be their
        outputs."""
        if isinstance(ys, Tensor) and ys.shape == xs.shape[:2] and ys.dtype == xs.dtype:
            return ys
        cls = type(self)
        file = getattr(sys.modules.get(cls.__module__), "__file__", cls.__module__)
        got = f"{list(ys.shape)}, {ys.dtype}" if isinstance(ys, Tensor) else type(ys).__name__
        raise ConfigError(
            "task",
            f"{self.name}: {cls.__name__}.{method} ({file}) must return a tensor [B, n] = "
            f"{list(xs.shape[:2])}, {xs.dtype}, and not {got}",
        )


def register_task(name: str) -> Callable[[_AnyTask], _AnyTask]:
    """Class decorator: register a task under a name, with its fields as settings."""

    def add(cls: _AnyTask) -> _AnyTask:
        cls.name = name
        _REGISTRY[name] = cls
        if not read_values(f"task/{name}"):
            add_task(name, _defaults(cls))
        return cls

    return add


def _defaults(cls: type[Task]) -> dict[str, Any]:
    """The settings that a task adds, with their defaults. Raises TypeError for one without, and for
    settings of which @dataclass has not made fields yet."""
    if "__dataclass_fields__" not in vars(cls) and vars(cls).get("__annotations__"):
        raise TypeError(f"{cls.__name__} needs @dataclass(frozen=True) below @register_task")
    shared, found = {field.name for field in fields(Task)}, dict[str, Any]()
    for field in (field for field in fields(cls) if field.name not in shared):
        if field.default is MISSING:
            raise TypeError(f"{cls.__name__}.{field.name} needs a default: it is a setting")
        is_tuple = isinstance(field.default, tuple)
        found[field.name] = [*field.default] if is_tuple else field.default
    return found


def task_class(name: str) -> type[Task]:
    """The class registered under `name`; ValueError, with the nearest name, where there is none."""
    if name not in _REGISTRY:
        raise ValueError(f"unknown task {name!r}{nearest(name, _REGISTRY)}")
    return _REGISTRY[name]


def make_task(
    name: str,
    dims: int,
    distinct_prompts: int = 0,
    settings: Mapping[str, Any] | None = None,
    distinct_functions: int = 0,
) -> Task:
    """Build a registered task; TypeError for a setting that it does not have."""
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in (settings or {}).items()}
    return task_class(name)(dims, distinct_prompts, distinct_functions, **values)


@dataclass(frozen=True)
class Classification(Task):
    """A task whose ys are label tokens (`labels`): -1 for class 0, 1 for class 1. Its errors are
    error rates.

    The reference's OpenML code has 0 and 1, so that class 0's token is all zeros: a small model
    that learns one-dimensional halfspaces within 500 steps from -1 and 1 does not within 1,500
    from 0 and 1.
    """

    loss = "cross_entropy"
    classes = 2
    baselines: ClassVar[tuple[str, ...]] = ("majority", "nearest_neighbours", "least_squares")

    @property
    def divisor(self) -> float:
        return 1.0
