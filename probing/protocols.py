"""The two protocols: that of Yang et al.'s paper, and that of its code; and control prompts, which
show what a probe computes itself instead of reading it off the states.

seen = PAPER.tokens_seen(target, PAPER.lengths(target, points=41, dims=20), tokens=82)   # [41, 82]
prompts, weights = control_prompts(task, torch.Generator().manual_seed(0), batch=64, points=41)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor

from looplab.tasks import Prompts, Task
from looplab.tasks.conditioned_linear import ConditionedLinear
from looplab.tasks.linear import Linear, SparseLinear
from looplab.tasks.random_source import FreshNumbers

from .targets import Target


@dataclass(frozen=True)
class Protocol:
    """Which tokens probes see, which targets they predict and how their errors are scaled.

    An error is the mean over a target's outputs of the squared error, divided by `error_divisor`.
    In both protocols the control is one number: the least of its errors over the layers or loops.
    """

    name: str
    learning_rate: float  # Adam's, unless the settings give one
    whole_prompt: bool = False  # probes of all lengths see every token of the prompt
    raw: bool = False  # neither states whitened nor targets scaled, as makes probes learn faster
    over_points: tuple[str, ...] = ()  # targets that are divided by the number of pairs n
    up_to_dims: tuple[str, ...] = ()  # targets that are predicted for up to d pairs only
    over_dims: bool = False  # errors, means over outputs, are divided by d again

    def lengths(self, target: Target, points: int, dims: int) -> range:
        """The lengths i, from 1, that have probes in prompts of `points` pairs."""
        lengths = target.lengths(points)
        return lengths[:dims] if target.name in self.up_to_dims else lengths

    def tokens_seen(self, target: Target, lengths: range, tokens: int) -> Tensor:
        """Whether the probe of each length sees each token of a prompt, bool [I, tokens].

        i pairs are the first 2i tokens, and the query's input the next. Raises ValueError if
        the prompt has fewer tokens than a length needs.
        """
        ends = torch.tensor([2 * length + target.asks_query for length in lengths])
        if lengths and ends[-1] > tokens:
            raise ValueError(
                f"target {target.name} of {lengths[-1]} pairs needs {ends[-1]} tokens, got {tokens}"
            )
        if self.whole_prompt:
            ends = torch.full_like(ends, tokens)
        return torch.arange(tokens) < ends[:, None]

    def scale(self, target: Target, points: int) -> float:
        """The factor of a target in prompts of `points` pairs."""
        return 1 / points if target.name in self.over_points else 1.0

    def error_divisor(self, dims: int) -> float:
        """The divisor of mean squared errors."""
        return dims if self.over_dims else 1.0

    def compute(self, target: Target, prompts: Prompts, parameters: Any, task: Task) -> Tensor:
        """The target's scaled values at the protocol's lengths, float64 [B, I, outputs]."""
        points = prompts.ys.shape[1]
        count = len(self.lengths(target, points, task.dims))
        pairs = count + target.asks_query  # later pairs do not bear on it
        prefixes = Prompts(prompts.xs[:, :pairs], prompts.ys[:, :pairs])
        return target.compute(prefixes, parameters, task) * self.scale(target, points)


PAPER = Protocol("paper", learning_rate=5e-3)
REFERENCE = Protocol(
    "reference",
    learning_rate=1e-3,
    whole_prompt=True,
    raw=True,
    over_points=("gradient",),
    up_to_dims=("least_squares",),
    over_dims=True,
)
PROTOCOLS = {protocol.name: protocol for protocol in (PAPER, REFERENCE)}


def control_prompts(
    task: Task, generator: Generator, batch: int, points: int
) -> tuple[Prompts, Tensor]:
    """Prompts whose functions all have the weights w = 1, and these weights [batch, d].

    Probes that are trained on them and tested on random w are the control (Yang et al. 2024,
    appendix F). Inputs and noise are those that `task.draw` draws from the same generator;
    `distinct_prompts` is ignored. Raises ValueError for a task that is not of dense linear
    functions.
    """
    if not isinstance(task, Linear) or isinstance(task, SparseLinear | ConditionedLinear):
        raise ValueError(
            f"the control, all weights 1, is that of dense linear functions, not of {task.name}"
        )
    draws = FreshNumbers(generator, batch)
    weights = torch.ones_like(task.parameters(draws, task.dims))
    return task.prompts(weights, draws, points, task.dims), weights
