"""The floating-point operations of a training."""

from __future__ import annotations

from reloop.conf.schema import Config
from reloop.curricula import Curriculum, Stage
from reloop.models import Model
from reloop.training.work import Work

_ITERATIONS = 5  # of Muon's Newton-Schulz


class Flops:
    """FLOPs of the first `step` steps: matrix products and attention of every loop, twice those of
    the loops that gradients reach back through, and Muon's orthogonalisation. Norms, activations,
    Adam, sampling and the computation of targets are not counted.
    """

    def __init__(self, config: Config, model: Model, curriculum: Curriculum) -> None:
        self._config, self._model, self._curriculum = config, model, curriculum
        roles = model.parameter_roles()
        weights = dict(model.named_parameters())
        matrices = {name: weights[name] for name, role in roles.items() if role.kind == "matrix"}
        layers = config.model.n_layer if config.model.family == "standard" else 1
        block_weights = sum(
            w.numel() for name, w in matrices.items() if name.startswith("loop.blocks.")
        )
        self._loop_weights = block_weights / layers  # applied to each token in a loop
        self._outside_weights = (
            sum(w.numel() for w in matrices.values())
            - block_weights
            + sum(weights[f"{part}.weight"].numel() for part in ("read_in", "read_out"))
        )
        self._blocks = 1 if config.model.family == "standard" else config.model.n_layer
        self._muon = 0.0
        if config.training.optimizer == "muon":
            for name, weight in matrices.items():
                for rows in roles[name].parts:
                    short, long = sorted((rows, weight.shape[1]))
                    self._muon += _ITERATIONS * (4 * short**2 * long + 2 * short**3)
        steps = config.training.steps
        self._work = Work(curriculum, steps, self._step_flops)

    def __call__(self, step: int) -> float:
        """FLOPs of the first `step` steps."""
        return self._work(step) * self._work.total

    def _step_flops(self, stage: Stage) -> float:
        tokens = 2 * stage.points - 1
        loop_flops = (
            2 * self._loop_weights * tokens
            + 4 * tokens**2 * self._config.model.n_embd * self._blocks
        )
        passes = stage.loops + 2 * stage.grad_loops
        outside_flops = 3 * 2 * self._outside_weights * tokens
        return self._config.training.batch_size * (passes * loop_flops + outside_flops) + self._muon
