"""The worth of one recurrence, on linear functions in context: models of one effective depth, the
law of their losses, and its claims (arXiv 2604.21106).

The loss is the error at b loops over the variance of y, averaged over all numbers of examples. E is
fixed at the error of the best possible predictor on the same prompts.

A run whose loss stays above E + (Z - E) / 2, where Z is that of predicting 0, has not left the
plateau. The fit leaves it out.

To leave out by loss selects on the outcome: the worst of the short trainings are missing. That
flattens the fit in D, so that beta tends to come out low, and it leaves phi less certain.

All runs see the same prompts: no interval covers another set of them.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
from pandas import DataFrame

from looplab.conf.mistakes import RunError
from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.evaluate_run import evaluated
from looplab.evaluation.statistics import Estimate, NotMeasured, over_seeds
from looplab.show.panel import Curve, Panel, without_interval
from looplab.training.run_folder.run import Run

from .evidence import Evidence
from .plateau import LEAVES
from .question import Result, prompts_of
from .scaling_law.law import Law, fitted
from .scaling_law.report import law_panels
from .scaling_law.runs import row_of

# Such runs of one seed share their initial weights; all runs share the prompts.
CLUSTERS = ("r", "width")
NOTE = "the interval is over runs alone"
_SIZE = ["r", "width", "steps"]  # such runs differ in their seed alone


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> Result:
    """The law of runs of one task, of those that left the plateau: `losses`, the r, width, steps
    and loss of each, and `fitted`, their number; `bayes` (E); `phi` with its 90 % interval (None
    where it is open), `not_determined`, the parameters that the losses leave open, and the `law`
    itself. Without a law `phi` is None, and `no_law` says why. `runs` are the rows of all runs, of
    which those of the law have `left`; `zero` is the loss of predicting 0."""
    config = runs[0].config
    prompts = prompts_of(runs[0], settings)
    bayes = float(evaluated(runs[0], settings)[1]["bayes"].mean(dtype=np.float64))
    zero = float(prompts.ys.double().square().mean()) / runs[0].task.divisor
    rows = []
    for run in runs:
        size = {"width": run.config.model.n_embd, "steps": run.step}
        rows.append(row_of(run, settings) | size)
    table = DataFrame(rows).drop(columns="budget").sort_values(_SIZE)
    table["left"] = table.loss <= bayes + LEAVES * (zero - bayes)
    # The law describes trained models: a run on the plateau is none.
    left = table[table.left]
    result: Result = {
        "settings": {
            "r": sorted(set(table.r.tolist())),
            "steps": sorted(set(table.steps.tolist())),
            "depth": config.model.n_layer * config.loops.b,
            "dims": config.task.dims,
        }
    }
    result["bayes"] = bayes
    result["zero"] = zero
    result["runs"] = table.to_dict("records")
    result["losses"] = left[["r", "width", "steps", "loss"]].to_dict("records")
    result["fitted"] = len(left)
    try:
        # E is known: the error of the best possible predictor on these prompts.
        law = fitted(left, {"E": bayes}, CLUSTERS, settings.resamples, seed=0)
    except RunError as error:
        return result | {"phi": None, "no_law": str(error)}
    unknown = list(law.not_determined)
    return result | {"phi": law.phi(), "not_determined": unknown, "law": asdict(law.fit.law)}


def panels(result: Result) -> list[Panel]:
    """Losses by steps, a panel for each width; and the law beside those that it is fitted to."""
    table = DataFrame(result["runs"])
    levels = {"predicting zero": result["zero"], "least possible": result["bayes"]}
    axes = ("steps of training", "error / variance of y, mean over k")
    by_steps = partial(panel_by_r, x="steps", axes=axes, levels=levels, picture="iso-depth")
    drawn = []
    for width, rows in table.groupby("width"):
        title = f"one effective depth, {width} wide"
        drawn.append(by_steps(rows, name=f"iso-depth-width-{width}", title=title))
    if "law" in result:
        drawn += law_panels(table[table.left], Law(**result["law"]))
    return drawn


def panel_by_r(
    rows: DataFrame, x: str, name: str, title: str, axes: tuple[str, str], **more: Any
) -> Panel:
    """Losses by a column x, a curve for each r. There are no intervals: each is one
    run, or the mean over seeds."""
    losses = rows.pivot_table(index=x, columns="r", values="loss")
    curves = [
        Curve.of(f"r = {r:g}", "loops", without_interval(values), number=float(r))
        for r, values in losses.items()
    ]
    return Panel(name, title, *axes, losses.index.tolist(), curves, log="x", **more)


def seeds_of(rows: DataFrame, columns: Sequence[str]) -> int:
    """The number of seeds: the fewest runs that agree in these columns."""
    return int(rows.groupby(list(columns)).size().min())


def with_seeds(estimate: Estimate, seeds: int) -> Estimate:
    """An estimate whose interval is over runs, whatever their number of seeds."""
    note = f"one seed: {NOTE}" if seeds == 1 else NOTE
    return estimate._replace(seeds=seeds, note=note, over="run")


def of_phi(phi: Result, seeds: int) -> Estimate:
    """The estimate of a law's phi with its interval, over clusters of runs."""
    low = -math.inf if phi["low"] is None else phi["low"]
    high = math.inf if phi["high"] is None else phi["high"]
    return with_seeds(Estimate(phi["value"], low, high, seeds), seeds)


def phi(evidence: Evidence) -> Estimate:
    """The worth of one recurrence by the fitted law."""
    result = evidence.result("iso_depth")
    if result["phi"] is None:
        raise NotMeasured(f"the runs determine no law: {result['no_law']}")
    estimate = of_phi(result["phi"], seeds_of(DataFrame(result["runs"]), _SIZE))
    if "phi" in result["not_determined"]:
        note = "; ".join(filter(None, (estimate.note, "the losses leave phi open")))
        estimate = estimate._replace(note=note)
    return _sized(estimate, result)


def most_recurrences_over_one(evidence: Evidence) -> Estimate:
    """The error above the Bayes error, of the most recurrences over one: the geometric mean over
    the widths and steps at which both left the plateau."""
    result = evidence.result("iso_depth")
    losses = DataFrame(result["losses"], columns=[*_SIZE, "loss"])
    # The mean of the runs of a size, where there are several seeds.
    excess = (losses.groupby(_SIZE).loss.mean() - result["bayes"]).to_dict()
    most = max(result["settings"]["r"])
    ratios = []
    for (r, width, steps), value in excess.items():
        if r == most > 1 and (1, width, steps) in excess:
            ratios.append(value / excess[1, width, steps])
    if not ratios:
        raise NotMeasured("no size at which models with and without recurrence left the plateau")
    estimate = over_seeds(ratios, log=True, what="size")
    return _sized(with_seeds(estimate, seeds_of(DataFrame(result["runs"]), _SIZE)), result)


def _sized(estimate: Estimate, result: Any) -> Estimate:
    settings = result["settings"]
    size = f"{result['fitted']} runs of {settings['depth']} layers, d = {settings['dims']}"
    return estimate._replace(steps=min(settings["steps"]), size=size)
