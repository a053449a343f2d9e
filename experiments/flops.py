"""The floating-point operations of a training, and a training of so many of them.

Flops(config, shapes_of(config), curriculum)(step=1000)
of_budget(config, flops=1e18, tokens=983_040_000)
"""

from functools import cache, lru_cache, partial

from torch import Generator

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config
from looplab.curricula import Curriculum, Stage
from looplab.models import Model, ModelSpec
from looplab.models.flops import pass_costs
from looplab.models.loops.loop import Loop
from looplab.models.loops.make import loop_class
from looplab.tasks.language.tokens import nominal_vocabulary
from looplab.training.assemble import build_curriculum, build_task, last_stage, spec_of
from looplab.training.optim.optimizers import muon_kinds
from looplab.training.progress import Work

_ITERATIONS = 5  # of Muon's Newton-Schulz
_POWER = -0.32  # of the tokens, in MuonH's rate (the code of arXiv 2604.21106)


def shapes_of(config: Config) -> Model:
    """The model of a configuration, without weights: one object for all of the same shape."""
    task = config.task
    if task.is_text:
        vocabulary = nominal_vocabulary(task.settings["tokens"], task.settings["vocabulary"])
        spec = spec_of(config, vocabulary=vocabulary)
    else:
        spec = spec_of(config, build_task(config).classes)
    return _empty_model(spec, loop_class(spec.injection))


@lru_cache(maxsize=64)  # the runs of a grid have few shapes
def _empty_model(spec: ModelSpec, own_loop: type[Loop] | None) -> Model:
    """The model of a spec, without weights; `own_loop` is its user's loop, which may be edited."""
    return Model(spec, Generator(), empty=True)


class Flops:
    """FLOPs of the first `step` steps: matrix products and attention of every loop, twice those of
    the loops that gradients reach back through, the head for each loop in the loss, and Muon's
    orthogonalisation. Norms, activations, Adam, sampling and the computation of targets are not
    counted.
    """

    def __init__(self, config: Config, model: Model, curriculum: Curriculum) -> None:
        self._config = config
        self._costs = cache(partial(pass_costs, model))
        self._muon = 0.0  # of a step's orthogonalisation of all matrices
        self.muon_matrices = 0
        kinds = muon_kinds(config.training)
        for name, role in model.parameter_roles().items():
            for rows in role.parts if role.kind in kinds else ():
                short, long = sorted((rows, model.get_parameter(name).shape[1]))
                # For X [short, long]: A = X Xᵀ, A², and (b A + c A²) X.
                self._muon += _ITERATIONS * (4 * short**2 * long + 2 * short**3)
                self.muon_matrices += 1
        self._work = Work(
            curriculum, config.training.steps, lambda stage: self.of_stage(stage) + self._muon
        )

    def __call__(self, step: int) -> float:
        """FLOPs of the first `step` steps."""
        return self._work(step) * self._work.total

    def of_stage(self, stage: Stage) -> float:
        """FLOPs of a step without Muon's orthogonalisation."""
        tokens = self._config.task.tokens_of(stage.points)
        costs = self._costs(tokens).of_step(stage.loops, stage.grad_loops, stage.window)
        return self._config.training.batch_size * costs


def of_budget(config: Config, flops: float, tokens: int) -> dict[str, float]:
    """The settings of a training of so many FLOPs: its steps, each as costly as the last, without
    the optimiser's own work; and, unless `tokens` is 0, MuonH's rate, which is that of the
    configuration for so many tokens. Raises ConfigError for less than a step."""
    training = config.training
    task = build_task(config)
    costs = Flops(config, shapes_of(config), build_curriculum(config, task))
    of_step = costs.of_stage(last_stage(config, task))
    steps = round(flops / of_step)
    if steps < 1:
        raise ConfigError("budget", f"is {flops:.3g} FLOPs, and one step takes {of_step:.3g}")
    settings: dict[str, float] = {"training.steps": steps}
    if tokens:
        trained = steps * training.batch_size * config.task.points
        settings["training.muon_rate"] = training.muon_rate * (trained / tokens) ** _POWER
    return settings
