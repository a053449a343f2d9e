"""The penalty of the Lasso on sparse functions, by solvers alone: no model is trained."""

from collections.abc import Mapping, Sequence

import numpy as np

from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.baselines.lasso import lasso
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.results import SQUARED_ERROR
from looplab.evaluation.statistics import Estimate
from looplab.show.panel import Curve, Panel
from looplab.tasks import make_task
from looplab.training.run_folder.run import Run
from looplab.training.validation import evaluation_prompts

from .evidence import Evidence
from .question import Result, band, estimate

_PENALTIES = (1e-4, 1e-3, 0.01, 0.1, 1.0)


def measure(
    runs: Sequence[Run], settings: EvaluationConfig, dims: int, sparsity: int, prompts: int
) -> Result:
    """Solve sparse functions of so many `dims`, 2 d + 1 points a prompt; it needs no runs. `curves`
    has by penalty the error by the number of examples, and `over_others` the mean error at a
    penalty over the least of the others."""
    task = make_task("sparse_linear", dims, settings={"sparsity": sparsity})
    drawn = evaluation_prompts(task, prompts, 2 * dims + 1, settings.seed)
    xs = drawn.xs.double().numpy()
    ys = drawn.ys.double().numpy()
    errors = {}
    for alpha in _PENALTIES:
        residuals = lasso(xs, ys, xs, alpha) - ys
        errors[f"{alpha:g}"] = np.square(residuals)[None] / task.divisor  # [1, prompts, points]
    return {
        "dims": dims,
        "curves": {name: band([values], settings) for name, values in errors.items()},
        "over_others": {name: _over_others(errors, name, settings) for name in errors},
    }


def _over_others(errors: Mapping[str, Floats], name: str, settings: EvaluationConfig) -> Estimate:
    """The mean error over all numbers of examples over the least of the other penalties."""
    own = errors[name].mean(-1)
    others = [values.mean(-1) for other, values in errors.items() if other != name]

    def statistic(means: Sequence[Floats]) -> Floats:
        return np.asarray(means[0] / np.min(means[1:], axis=0))

    return estimate([own, *others], settings, statistic, log=True)


def panels(result: Result) -> list[Panel]:
    """Errors by the number of examples, a curve for each penalty."""
    curves = []
    for name, interval in result["curves"].items():
        label = f"Lasso, α = {name}"
        curves.append(Curve.of(label, "lasso", interval, name=f"alpha-{name}", number=float(name)))
    points = range(len(curves[0].mean))
    title = f"sparse functions, d = {result['dims']}"
    return [Panel("lasso-penalties", title, "examples", SQUARED_ERROR, points, curves, log="y")]


def mean_error_over_others(evidence: Evidence, penalty: float) -> Estimate:
    """The mean error over all numbers of examples at a penalty over the least of the others."""
    result = evidence.result("lasso_penalty")
    found = Estimate.read(result["over_others"][f"{penalty:g}"])
    note = "solvers have no seeds: the interval is over prompts alone"
    return found._replace(size=f"d = {result['dims']}", note=note)
