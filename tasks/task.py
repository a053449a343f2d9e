"""A task: a function class, how to sample prompts from it, and the unit of its error; and a batch
of prompts.

task = make_task("sparse_linear", dims=20, settings={"sparsity": 3})
prompts = task.sample(torch.Generator().manual_seed(0), batch=64, points=41, dims=5)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, ClassVar, TypeVar

import torch
from torch import Generator, Tensor

from looplab.conf.checks.config import check_setting
from looplab.conf.files import read_values
from looplab.conf.mistakes import ConfigError, nearest
from looplab.conf.plugins import Slip, add_task, check_class, registering
from looplab.conf.schema import TaskConfig

from .data import Data
from .least_squares import Floats
from .random_source import FreshNumbers, NumberedPrompts, RandomSource

_FAMILY = 0x5EED  # the family of numbered prompts that `distinct_prompts` is a part of
_FUNCTIONS = 0xF00D  # the family whose functions `distinct_functions` draws from
_REGISTRY: dict[str, type[Task]] = {}
_LOSSES = ("squared_error", "cross_entropy", "next_token")  # training/objective.py
# From xs [B, n, d], ys [B, n] and queries [B, n, d] to predictions [B, n] in float64: of query k
# from the first k pairs alone.
Predictor = Callable[[Floats, Floats, Floats], Floats]
_AnyTask = TypeVar("_AnyTask", bound="type[Task]")


@dataclass(frozen=True)
class Prompts:
    """A batch of prompts, each of which poses n questions at once: y_i is to be predicted from x_i
    and the i pairs before it.

    Parameters
    ----------
    xs : Tensor
        Inputs [B, n, d], or int64 tokens of a text [B, n].
    ys : Tensor
        Their outputs [B, n], or the tokens after those.

    Raises
    ------
    ValueError
        Where the shapes do not fit together.

    References
    ----------
    arXiv 2208.01066: pairs of a function as a prompt.

    Examples
    --------
    >>> from looplab import Prompts
    >>> import torch
    >>> len(Prompts(torch.zeros(4, 11, 10), torch.zeros(4, 11))[:2])
    2
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
    outputs (`outputs`); `register_task` has one.

    Parameters
    ----------
    dims : int
        Dimensions d of x.
    distinct_prompts : int
        If not 0, there are only so many prompts, each of the same numbers whenever it is sampled.
    distinct_functions : int
        If not 0, there are only so many functions, each as likely, and endless prompts of them.

    References
    ----------
    arXiv 2208.01066: function classes in context.

    Examples
    --------
    >>> from looplab import load_run
    >>> task = load_run("shipped/linear").task
    >>> task.name, task.dims, task.loss
    ('linear', 10, 'squared_error')
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
    clip: ClassVar[float] = math.inf  # inputs lie within ± this; a table's are cut there
    baselines: ClassVar[tuple[str, ...]] = ("least_squares", "averaging", "nearest_neighbours")

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            # Python passes 1 for 1.0. A field's type is a text where annotations are not evaluated.
            check_setting(field.name, float(value) if field.type in (float, "float") else value)

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

    def bayes(self) -> Predictor | None:
        """The predictor of least expected error, evaluated as the baseline `bayes`; None where it
        is unknown or out of reach. A subclass does not inherit it, since its functions are others.
        """
        return None

    def sample(
        self, generator: Generator, batch: int, points: int, dims: int | None = None
    ) -> Prompts:
        """Sample prompts on the generator's device.

        Parameters
        ----------
        generator : torch.Generator
            The same seed gives the same prompts.
        batch, points : int
            B prompts of n pairs.
        dims : int, optional
            Only so many dimensions are visible: the others are zero in x and do not affect y.

        Returns
        -------
        Prompts
            xs [B, n, d], ys [B, n].

        Examples
        --------
        >>> from looplab import load_run
        >>> import torch
        >>> task = load_run("shipped/linear").task
        >>> task.sample(torch.Generator().manual_seed(0), batch=4, points=11).xs.shape
        torch.Size([4, 11, 10])
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
        # A numbered prompt is the same at each draw; a numbered function has fresh inputs.
        numbered = random
        if count:
            index = torch.randint(count, (batch,), generator=generator, device=generator.device)
            numbered = NumberedPrompts(index, _FAMILY if self.distinct_prompts else _FUNCTIONS)
        if self.distinct_prompts:
            random = numbered
        parameters = self.parameters(numbered, dims)
        return self.prompts(parameters, random, points, dims), parameters

    def prompts(self, parameters: Any, random: RandomSource, points: int, dims: int) -> Prompts:
        """Prompts of `points` pairs of given functions, in the first `dims` dimensions."""
        xs = random.normal(points, self.dims)
        xs[:, :, dims:].zero_()
        return Prompts(xs, self.noise(self.outputs(xs, parameters), random, dims))


def register_task(name: str) -> Callable[[_AnyTask], _AnyTask]:
    """Register the class below, a Task, with its fields as settings.

    Parameters
    ----------
    name : str
        That `task=` takes; a field `f` is the setting `task.f`.

    Raises
    ------
    ConfigError
        For a name that is taken, a class that is no Task, or a field without a default; it says in
        which file and line.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from looplab import Task, register_task
    >>> @register_task("sines")
    ... @dataclass(frozen=True)
    ... class Sines(Task):
    ...     frequency: float = 2.0
    ...     divisor = property(lambda self: self.dims / 2)  # the variance of y
    ...     def parameters(self, random, dims):
    ...         return random.normal(self.dims)
    ...     def outputs(self, xs, amplitudes):  # [B, n, d], [B, d] to [B, n]
    ...         return (xs.mul(self.frequency).sin() * amplitudes[:, None]).sum(2)
    """
    is_ours = bool(read_values(f"task/{name}"))

    def add(cls: _AnyTask) -> None:
        check_class(cls, Task)
        _check_loss(cls)
        cls.name = name
        _REGISTRY[name] = cls
        if not is_ours:
            add_task(name, _defaults(cls))

    return registering("task", name, is_ours, add, guards=["__init__"])


def _check_loss(cls: type[Task]) -> None:
    """Raises Slip for a loss that training does not know, and for other classes than it takes."""
    if cls.loss not in _LOSSES:
        problem = (
            f"must be one of {', '.join(_LOSSES)}; another is an edit of training/objective.py"
        )
        raise Slip(cls, problem, "loss")
    if cls.loss == "cross_entropy" and cls.classes != 2:
        raise Slip(cls, "must be 2 with loss = 'cross_entropy'", "classes")


def _defaults(cls: type[Task]) -> dict[str, Any]:
    """The settings that a task adds, with their defaults. Raises Slip for one without, for one that
    has the name of something else, and for those of which @dataclass has not made fields yet."""
    if "__dataclass_fields__" not in vars(cls) and vars(cls).get("__annotations__"):
        raise Slip(cls, "needs @dataclass(frozen=True) below @register_task")
    shared = {field.name for field in fields(Task)}
    reserved = {field.name for field in fields(TaskConfig)} | Task.__annotations__.keys()
    defaults: dict[str, Any] = {}
    for field in fields(cls):
        if field.name in shared:
            continue
        if field.name in reserved:
            raise Slip(cls, "must have another name: every task has one of this", field.name)
        if field.default is MISSING:
            raise Slip(cls, "needs a default: it is a setting", field.name)
        is_tuple = isinstance(field.default, tuple)
        defaults[field.name] = list(field.default) if is_tuple else field.default
    return defaults


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


@dataclass(frozen=True)
class RowsOnly(Task):
    """A task of tables, whose outputs belong to their rows: other inputs have none."""

    def outputs(self, xs: Tensor, parameters: Any) -> Tensor:
        """Raises ConfigError."""
        raise ConfigError(
            "evaluation.shifts", "must be empty: a table has no function to ask at other inputs"
        )
