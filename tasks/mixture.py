"""Prompts of several function classes: of which one, the pairs must tell (arXiv 2306.04891,
2311.00871)."""

import math
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import torch
from torch import Tensor

from looplab.conf.mistakes import ConfigError, check_choice

from .linear import Linear, SparseLinear
from .nonlinear import DecisionTree, ReluNetwork
from .random_source import RandomSource
from .task import Task, register_task

_CLASSES = {cls.name: cls for cls in (Linear, SparseLinear, DecisionTree, ReluNetwork)}
_SETTINGS = ("sparsity", "depth", "hidden")


class Mixed(NamedTuple):
    """The class [B] of each prompt, by its place in `mixed`, and the parameters of a function of
    every class for each prompt."""

    place: Tensor
    parameters: tuple[Any, ...]


@register_task("mixture")
@dataclass(frozen=True)
class Mixture(Task):
    """Each prompt has a function of one of the classes `mixed`, each as likely. It is divided by
    the standard deviation of its class's outputs: y has variance 1 in every class.

    With `combined` each prompt has the sum of a function of every class, over the root of their
    number. `sparsity`, `depth` and `hidden` are those of the classes that have them.
    """

    mixed: tuple[str, ...] = ("linear", "relu_network")
    combined: bool = False
    sparsity: int = 3
    depth: int = 4
    hidden: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.mixed:
            check_choice("mixed", name, list(_CLASSES))
            if self.mixed.count(name) > 1:
                raise ConfigError("mixed", f"holds {name} twice")
        if not self.mixed:
            raise ConfigError("mixed", "must name a task")

    @property
    def divisor(self) -> float:
        return 1.0

    @property
    def parts(self) -> list[Task]:
        """The tasks of the classes, with those of the settings above that they have."""
        tasks: list[Task] = []
        for class_name in self.mixed:
            cls = _CLASSES[class_name]
            names = {field.name for field in fields(cls)}.intersection(_SETTINGS)
            tasks.append(cls(self.dims, **{name: getattr(self, name) for name in names}))
        return tasks

    def parameters(self, random: RandomSource, dims: int) -> Mixed:
        place = (random.uniform(1)[:, 0] * len(self.mixed)).long()
        return Mixed(place, tuple(part.parameters(random, dims) for part in self.parts))

    def outputs(self, xs: Tensor, parameters: Mixed) -> Tensor:
        scaled = []
        for task, of_task in zip(self.parts, parameters.parameters, strict=True):
            scaled.append(task.outputs(xs, of_task) / math.sqrt(task.divisor))
        values = torch.stack(scaled, dim=1)  # [B, classes, n]
        if self.combined:
            # Independent functions: variances add up to the number of classes.
            return values.sum(1) / math.sqrt(len(self.mixed))
        # Picks each prompt's own class from all of them: [B, n].
        return values[torch.arange(len(values), device=values.device), parameters.place]
