"""The floating-point operations of a training."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache, partial

from reloop.conf.schema import Config
from reloop.curricula import Curriculum, Stage
from reloop.models import Model
from reloop.models.flops import pass_costs
from reloop.training.optim.optimizers import muon_kinds
from reloop.training.progress import Work

_ITERATIONS = 5  # of Muon's Newton-Schulz


class Flops:
    """FLOPs of the first `step` steps: matrix products and attention of every loop, twice those of
    the loops that gradients reach back through, the head for each loop in the loss, and Muon's
    orthogonalisation. Norms, activations, Adam, sampling and the computation of targets are not
    counted.
    """

    def __init__(self, config: Config, model: Model, curriculum: Curriculum) -> None:
        self._config, self._costs = config, cache(partial(pass_costs, model))
        self._muon = _muon_flops(model, muon_kinds(config.training))
        self._work = Work(curriculum, config.training.steps, self._step_flops)

    def __call__(self, step: int) -> float:
        """FLOPs of the first `step` steps."""
        return self._work(step) * self._work.total

    def _step_flops(self, stage: Stage) -> float:
        tokens = stage.points if self._config.task.is_text else 2 * stage.points - 1
        costs = self._costs(tokens).of_step(stage.loops, stage.grad_loops, stage.window)
        return self._config.training.batch_size * costs + self._muon


def _muon_flops(model: Model, kinds: Collection[str]) -> float:
    """Of a step's orthogonalisation of all matrices of these kinds."""
    total = 0.0
    for name, role in model.parameter_roles().items():
        if role.kind not in kinds:
            continue
        for rows in role.parts:
            short, long = sorted((rows, model.get_parameter(name).shape[1]))
            total += _ITERATIONS * (4 * short**2 * long + 2 * short**3)
    return total
