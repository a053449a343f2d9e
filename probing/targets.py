"""The targets of probes: quantities of a prompt's first i pairs, or of its function.

prompts, parameters = task.draw(torch.Generator().manual_seed(0), batch=64, points=41)
values = find_target("least_squares").compute(prompts, parameters, task)        # [64, 41, d]
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor

from looplab.conf.mistakes import ConfigError, nearest
from looplab.conf.plugins import check_class, is_users, registering
from looplab.evaluation.bootstrap import Floats
from looplab.tasks import Prompts, Task
from looplab.tasks.curves import Curves
from looplab.tasks.least_squares import least_squares, least_squares_weights, ridge_weights
from looplab.tasks.linear import Linear, NoisyLinear, SparseLinear

TARGETS: dict[str, Target] = {}
_AnyTarget = TypeVar("_AnyTarget", bound="type[Target]")


class Target(ABC):
    """A quantity that a probe of length i, which sees i pairs, predicts. One of your own is
    registered under a name by `register_target` (docs/guide/inside.md).

    Examples
    --------
    >>> from looplab import Target
    >>> from looplab.probing.targets import find_target
    >>> isinstance(find_target("gradient"), Target)
    True
    """

    name: ClassVar[str]  # given by `register_target`
    label: ClassVar[str]  # on an axis
    of: ClassVar[type[Task] | None] = None  # the tasks that have it, if not all do
    asks_query: ClassVar[bool] = False  # of the input after the i pairs, which its probes see too

    def outputs(self, task: Task) -> int:
        """The number of outputs at each length."""
        return task.dims

    @abstractmethod
    def compute(self, prompts: Prompts, parameters: Any, task: Task) -> Tensor:
        """Its values, float64 [B, I, outputs], at the lengths 1 … I: all of the prompts', or those
        with a query left. `parameters` are those that `task.draw` returns with the prompts, which
        are on the CPU."""


def register_target(name: str) -> Callable[[_AnyTarget], _AnyTarget]:
    """Register the class below, a Target.

    Parameters
    ----------
    name : str
        That `targets=` of probing takes.

    Raises
    ------
    ConfigError
        For a name that is taken, or a class that is no Target; it says in which file and line.

    Examples
    --------
    >>> from looplab import register_target
    >>> from looplab.probing.targets import Target
    >>> @register_target("sums")
    ... class Sums(Target):
    ...     label = "Σ x"
    ...     def compute(self, prompts, parameters, task):  # [B, lengths, d]
    ...         return prompts.xs.double().cumsum(1)
    """

    def add(cls: _AnyTarget) -> None:
        check_class(cls, Target)
        cls.name = name
        TARGETS[name] = cls()

    is_ours = name in TARGETS and not is_users(TARGETS[name])
    return registering("targets", name, is_ours, add, guards=["compute"])


def find_target(name: str) -> Target:
    """The target registered under `name`; ConfigError with the nearest name if there is none."""
    if name not in TARGETS:
        problem = f"cannot hold {name}: unknown target {name!r}{nearest(name, TARGETS)}"
        raise ConfigError("targets", problem)
    return TARGETS[name]


def default_targets(task: Task) -> tuple[str, ...]:
    """The names of the gradient and of what a linear solver finds: of curves, whose features are
    nearly dependent, least squares are off by thousands."""
    return "gradient", "ridge" if isinstance(task, Curves) else "least_squares"


@register_target("gradient")
class Gradient(Target):
    """XᵀY = Σ_{j ≤ i} y_j x_j: minus half the gradient of Σ (y_j − w·x_j)² at w = 0."""

    label = "XᵀY"

    def compute(self, prompts: Prompts, parameters: Any, task: Task) -> Tensor:
        return (prompts.xs.double() * prompts.ys.double()[:, :, None]).cumsum(1)


@register_target("least_squares")
class LeastSquares(Target):
    """The least-squares weights w_OLS, the ones of least norm if there are several.

    If y is not exactly linear, their variance is infinite at d − 1, d and d + 1 pairs. A few
    prompts there dominate a mean over lengths: use 1 − R² by length, or `ridge`.
    """

    label = "w_OLS"

    def compute(self, prompts: Prompts, parameters: Any, task: Task) -> Tensor:
        return torch.from_numpy(least_squares_weights(*_arrays(prompts)))


@register_target("ridge")
class Ridge(Target):
    """(XᵀX + λV⁻¹)⁻¹ XᵀY, λ being the variance of the task's noise, or 1 if it has none. V is the
    diagonal matrix of the weights' variances: those of curves fall, others are 1.

    With noise it is the posterior's mean.
    """

    label = "w_ridge"

    def compute(self, prompts: Prompts, parameters: Any, task: Task) -> Tensor:
        # Renormalised outputs scale w and the noise by the same factor: λ is the same.
        penalty = task.noise_std**2 if isinstance(task, NoisyLinear | Curves) else 0.0
        xs, ys = _arrays(prompts)
        stds = task.variances().sqrt().numpy() if isinstance(task, Curves) else 1.0
        # w = √V v with v ~ N(0, I), and X w = (X √V) v.
        return torch.from_numpy(stds * ridge_weights(stds * xs, ys, penalty or 1.0))


@register_target("residual")
class Residual(Target):
    """The residual of the next pair's output by least squares on i pairs, y − w_OLS·x.

    Without noise it is rounding from d pairs on: its variance is 0 there.
    """

    label = "y − ŷ_OLS"
    asks_query = True

    def outputs(self, task: Task) -> int:
        return 1

    def compute(self, prompts: Prompts, parameters: Any, task: Task) -> Tensor:
        xs, ys = _arrays(prompts)
        # Without query 0, which has no pairs before it: lengths 1 … n − 1.
        return torch.from_numpy((ys - least_squares(xs, ys, xs))[:, 1:, None])


@register_target("weights")
class Weights(Target):
    """The true weights w, the same at all lengths."""

    label = "w"
    of = Linear

    def compute(self, prompts: Prompts, parameters: Any, task: Task) -> Tensor:
        # Some tasks draw more than the weights (conditioned_linear).
        weights: Tensor = getattr(parameters, "weights", parameters)
        return weights.double()[:, None].expand(-1, prompts.ys.shape[1], -1)


@register_target("support")
class Support(Weights):
    """1 for the coordinates in the support of w, else 0."""

    label = "support"
    of = SparseLinear

    def compute(self, prompts: Prompts, parameters: Any, task: Task) -> Tensor:
        return (super().compute(prompts, parameters, task) != 0).double()


def _arrays(prompts: Prompts) -> tuple[Floats, Floats]:
    return prompts.xs.double().numpy(), prompts.ys.double().numpy()
