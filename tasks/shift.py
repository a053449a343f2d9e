"""Prompts under shifted inputs: examples, queries or outputs that training has not seen.

shifted = SHIFTS["orthogonal_query"].sample(task, torch.Generator().manual_seed(0), 64, 41)
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import setitem

import torch
from torch import Generator, Tensor

from looplab.conf.plugins import registering

from .random_source import FreshNumbers
from .task import Prompts, Task

Pairs = Callable[[Tensor], Prompts]  # from inputs to pairs of each prompt's own function


@dataclass(frozen=True)
class Shifted:
    """Examples, and the query after each prefix of them.

    Query k of `queries` (xs [B, n, d], ys [B, n]) follows the first k pairs of `prompts` (the same
    shapes); where a shift has no queries of its own, `queries` is `prompts`. `zero` is
    the error of predicting zero, over the task's divisor.
    """

    prompts: Prompts
    queries: Prompts
    zero: float


@dataclass(frozen=True)
class Shift:
    """A change of the distribution that prompts come from (Garg et al. 2022, section 4).

    A subclass transforms the normal inputs (`examples`), chooses the queries after them (`queries`)
    and adds noise to the function's values (`observed`).
    """

    label: str

    def sample(self, task: Task, generator: Generator, batch: int, points: int) -> Shifted:
        """Draw `batch` prompts of at most `points` pairs over all of the task's dimensions.

        Functions and normal inputs are those that `task.sample` draws from the same generator, so
        that two shifts of one seed differ in the shift alone; `distinct_prompts` has no part in it.
        Examples and queries have one function and, where the task has noise, independent noise.
        `zero` is the mean of y² over these very queries: no closed form holds for every function,
        and a model that predicts zero everywhere has exactly this error on them.
        """
        random = FreshNumbers(generator, batch)
        # First the functions, then the inputs: in the order of `Task.draw`, for the same numbers.
        parameters = task.parameters(random, task.dims)

        def pairs(xs: Tensor) -> Prompts:
            return Prompts(xs, self.observed(task, task.outputs(xs, parameters), random))

        normal = random.normal(points, task.dims)
        prompts = pairs(self.examples(normal, random))
        queries = self.queries(normal, prompts, pairs, random)
        zero = queries.ys.double().square().mean().item() / task.divisor
        return Shifted(prompts, queries, zero)

    def examples(self, normal: Tensor, random: FreshNumbers) -> Tensor:
        """The examples' inputs, from standard normal ones [B, n, d]."""
        return normal

    def queries(
        self, normal: Tensor, prompts: Prompts, pairs: Pairs, random: FreshNumbers
    ) -> Prompts:
        """The queries; `pairs` gives inputs [B, n, d] their outputs."""
        return prompts

    def observed(self, task: Task, values: Tensor, random: FreshNumbers) -> Tensor:
        """The outputs, from the function's values [B, n]."""
        return task.noise(values, random, task.dims)


@dataclass(frozen=True)
class Covariance(Shift):
    """x = z·T with T = U diag(λ) Uᵀ, one random rotation U per evaluation, E|x|² = d as before."""

    eigenvalues: Callable[[int], Tensor]

    def examples(self, normal: Tensor, random: FreshNumbers) -> Tensor:
        dims = normal.shape[2]
        source = random.generator
        values = self.eigenvalues(dims).to(source.device)
        square = torch.randn(
            dims, dims, generator=source, device=source.device, dtype=torch.float32
        ).double()
        rotation = torch.linalg.qr(square).Q  # uniform but for its columns' signs, which cancel
        # E|z T|² = tr T² = Σ λ², scaled to d.
        transform = (rotation * values) @ rotation.mT * math.sqrt(dims / values.square().sum())
        return (normal.double() @ transform).float()


@dataclass(frozen=True)
class Noise(Shift):
    """y = f(x) + N(0, 1), scaled back to the variance without noise by the exact factor.

    This noise replaces the task's own.
    """

    def observed(self, task: Task, values: Tensor, random: FreshNumbers) -> Tensor:
        noisy = values + random.normal(values.shape[1])
        return noisy * math.sqrt(task.divisor / (task.divisor + 1))


@dataclass(frozen=True)
class OrthogonalQuery(Shift):
    """The query is x_k less its projection on the span of the examples, at x_k's norm.

    After d examples it is zero: there are min(points, d) pairs.
    """

    def examples(self, normal: Tensor, random: FreshNumbers) -> Tensor:
        return normal[:, : normal.shape[2]]

    def queries(
        self, normal: Tensor, prompts: Prompts, pairs: Pairs, random: FreshNumbers
    ) -> Prompts:
        # Column k of Q is orthogonal to x_0 … x_{k-1} up to rounding, however close they are, and
        # parallel to the residual of x_k; the sign is that of R's diagonal.
        xs = prompts.xs.double()
        directions, triangle = torch.linalg.qr(xs.mT)
        signs = triangle.diagonal(dim1=1, dim2=2).sign()
        lengths = signs * xs.norm(dim=2)
        return pairs((directions.mT * lengths[:, :, None]).float())


@dataclass(frozen=True)
class RepeatedQuery(Shift):
    """The query is one of the examples, each as likely; without examples, x_0 itself.

    The whole pair is copied, noise included: the answer is in the prompt.
    """

    def queries(
        self, normal: Tensor, prompts: Prompts, pairs: Pairs, random: FreshNumbers
    ) -> Prompts:
        points = prompts.ys.shape[1]
        uniform = random.uniform(points)
        # After k examples one of 0 … k − 1; after none number 0.
        earlier = (uniform * torch.arange(points, device=uniform.device)).long()
        xs = prompts.xs.take_along_dim(earlier[:, :, None], dim=1)
        return Prompts(xs, prompts.ys.take_along_dim(earlier, dim=1))


@dataclass(frozen=True)
class RandomOrthants(Shift):
    """The examples lie in one random orthant per prompt; the query is anywhere."""

    def examples(self, normal: Tensor, random: FreshNumbers) -> Tensor:
        signs = torch.where(random.uniform(1, normal.shape[2]) < 0.5, -1.0, 1.0).float()
        return normal.abs() * signs

    def queries(
        self, normal: Tensor, prompts: Prompts, pairs: Pairs, random: FreshNumbers
    ) -> Prompts:
        return pairs(normal)


@dataclass(frozen=True)
class OppositeOrthants(RandomOrthants):
    """The examples lie in one random orthant per prompt, the query in the opposite one."""

    def queries(
        self, normal: Tensor, prompts: Prompts, pairs: Pairs, random: FreshNumbers
    ) -> Prompts:
        return pairs(-prompts.xs)


@dataclass(frozen=True)
class ScaledInputs(Shift):
    """x = scale · z, and y = f(x)."""

    scale: float

    def examples(self, normal: Tensor, random: FreshNumbers) -> Tensor:
        return normal * self.scale


@dataclass(frozen=True)
class ScaledFunction(Shift):
    """y = scale · f(x), for linear functions scaled weights; the task's noise does not change."""

    scale: float

    def observed(self, task: Task, values: Tensor, random: FreshNumbers) -> Tensor:
        return super().observed(task, values * self.scale, random)


def _falling(dims: int) -> Tensor:
    """1, 1/2, …, 1/d."""
    return 1 / torch.arange(1, dims + 1, dtype=torch.float64)


def _half(dims: int) -> Tensor:
    """One for half of the dimensions, rounded down but for a single one; zero for the rest."""
    return (torch.arange(dims) < max(dims // 2, 1)).double()


SHIFTS: dict[str, Shift] = {
    "skewed_covariance": Covariance("skewed covariance", _falling),
    "half_subspace": Covariance("d/2-dimensional subspace", _half),
    "noise": Noise("noisy outputs"),
    "orthogonal_query": OrthogonalQuery("orthogonal query"),
    "repeated_query": RepeatedQuery("query among the examples"),
    "random_orthants": RandomOrthants("examples in one orthant"),
    "opposite_orthants": OppositeOrthants("query in the opposite orthant"),
    "scaled_x_0.333": ScaledInputs("x · 0.333", 0.333),
    "scaled_x_0.5": ScaledInputs("x · 0.5", 0.5),
    "scaled_x_2": ScaledInputs("x · 2", 2),
    "scaled_x_3": ScaledInputs("x · 3", 3),
    "scaled_w_0.333": ScaledFunction("w · 0.333", 0.333),
    "scaled_w_0.5": ScaledFunction("w · 0.5", 0.5),
    "scaled_w_2": ScaledFunction("w · 2", 2),
    "scaled_w_3": ScaledFunction("w · 3", 3),
}

_OWN = frozenset(SHIFTS)


def register_shift(name: str, shift: Shift) -> None:
    """Register shifted inputs.

    Parameters
    ----------
    name : str
        That `evaluation.shifts` takes.
    shift : Shift
        Draws prompts that training never saw.

    Raises
    ------
    ConfigError
        For a name that is taken; it says by which file and line.

    Examples
    --------
    >>> from looplab import register_shift
    >>> from looplab.tasks.shift import ScaledInputs
    >>> register_shift("scaled_x_5", ScaledInputs("x · 5", 5))
    """
    if not isinstance(shift, Shift):
        raise TypeError(f"a shift must be a Shift, got {shift!r}")
    add = partial(setitem, SHIFTS, name)
    registering("evaluation.shifts", name, name in _OWN, add, guards=["sample"])(shift)
