"""What one recurrence is worth, on linear functions in context: models of one effective depth, the
law of their losses, and its claims (arXiv 2604.21106).

result = measure(request).results["iso_depth"]      # result["phi"], result["losses"]

The loss is the error at b loops over the variance of y, averaged over all numbers of examples. E is
fixed at the error of the best possible predictor on the same prompts. A run whose loss stays above
E + (Z - E) / 2, where Z is that of predicting 0, has not left the plateau: it is counted, for each
r, and left out of the fit. To leave out by loss selects on the outcome: the worst of the short
trainings are missing, which flattens the fit in D (beta tends to come out low) and leaves phi less
certain. All runs see the same prompts: no interval covers another set of them.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from looplab.conf.mistakes import RunError
from looplab.evaluation import load_run
from looplab.evaluation.bootstrap import numbers
from looplab.evaluation.errors import evaluation_prompts
from looplab.evaluation.panel import Curve, Panel, without_interval
from looplab.evaluation.remarks import shared
from looplab.experiments.claims import Estimate, Evidence, Measured, NotMeasured, Paper
from looplab.experiments.measuring import Measurement, Request
from looplab.experiments.plateau import LEAVES, bayes_error, has_left_plateau, highest
from looplab.experiments.scaling_law.law import Fit
from looplab.experiments.scaling_law.report import Fitted, fitted
from looplab.experiments.scaling_law.report import panels as law_panels
from looplab.experiments.scaling_law.runs import parameter_counts
from looplab.experiments.scaling_law.table import COLUMNS, ScalingTable
from looplab.experiments.statistics import over_seeds
from looplab.training.assemble import build_task

CLUSTERS = ("r", "width")  # such runs share their initial weights; all runs share the prompts
_WELL = 0.9  # the least R² at which the law describes the losses
_NOTE = "one seed: the interval is over runs alone"


def measure(request: Request) -> Measurement:
    """The law of the finished runs. The result, under "iso_depth", has `losses` (r, width, steps
    and loss of each run that left the plateau), `fitted` and `on_plateau` (how many did, the names
    of those that did not), `bayes` and `zero` (E and Z on the prompts), `phi` with its 90 %
    interval (None where the search's edge is one), `not_determined`, and `verdict`, in words; what
    determines no law is said in `missing`."""
    if not request.runs:
        return Measurement(missing=["iso-depth law: no run is finished"])
    given = request.only_settings("the law")
    first = request.runs[0]
    settings, task = first.config.evaluation, build_task(first.config)
    prompts = evaluation_prompts(task, settings.prompts, first.config.task.points, settings.seed)
    bayes = float(first.arrays["bayes"].mean(dtype=np.float64))
    zero = float(prompts.ys.double().square().mean()) / task.divisor
    rows = sorted(map(_row, request.runs), key=lambda row: (row["r"], row["width"], row["steps"]))
    off = [row for row in rows if has_left_plateau(row["loss"], bayes, zero)]
    on = [row for row in rows if row not in off]
    expected = bayes_error(first.config.task.dims, first.config.task.points)
    result: dict[str, Any] = {
        "settings": {
            "r": sorted({row["r"] for row in rows}),
            "steps": sorted({row["steps"] for row in rows}),
            "depth": first.config.model.n_layer * first.config.loops.b,
            "dims": first.config.task.dims,
        },
        "bayes": bayes, "bayes_expected": expected, "zero": zero,
        "losses": [{name: row[name] for name in ("r", "width", "steps", "loss")} for row in off],
        "runs": [{**row, "left_plateau": row in off} for row in rows],
        "fitted": len(off), "on_plateau": [row["run"] for row in on],
        "remarks": shared({run.label: run.remarks for run in request.runs}),
    }  # fmt: skip
    drawn, missing = panels(result), list[str]()
    try:
        fits = fitted(_table(off), {"E": bayes}, CLUSTERS, given.get("resamples", 200), seed=0)
    except RunError as error:
        result["verdict"] = (
            f"no law can be fitted to the {len(off)} runs of {len(rows)} that left the plateau: "
            f"{error}"
        )
        missing.append(f"iso-depth law: {result['verdict']}")
    else:
        result |= {
            "verdict": verdict(fits, result),
            "not_determined": list(fits.certainty.not_determined),
            "phi": fits.phi(),
            "law": fits.to_json(),
        }
        drawn += law_panels(fits)
    return Measurement({"iso_depth": result}, drawn, missing)


def _row(run: Measured) -> dict[str, Any]:
    """The numbers of a run in the law's table."""
    config, model = run.config, load_run(run.path).model
    once, rec = parameter_counts(model)
    return {
        "N_once": once,
        "N_rec": rec,
        "r": config.loops.b,
        "D": run.step * config.training.batch_size,
        "loss": float(run.arrays["model_at_b"].mean(dtype=np.float64)),
        "width": config.model.n_embd,
        "steps": config.training.steps,
        "run": run.path,
    }


def _table(rows: Sequence[Mapping[str, Any]]) -> ScalingTable:
    labels = {name: tuple(str(row[name]) for row in rows) for name in ("width", "steps")}
    columns = {name: np.array([row[name] for row in rows], np.float64) for name in COLUMNS}
    return ScalingTable(**columns, labels=labels)


def panels(result: Mapping[str, Any]) -> list[Panel]:
    """Loss by steps, a panel for each width and a curve for each r. There are no intervals: each is
    one run."""
    runs = result["runs"]
    levels = {"predicting zero": result["zero"], "least possible": result["bayes"]}
    steps = sorted({row["steps"] for row in runs})
    found = []
    for width in sorted({row["width"] for row in runs}):
        curves = []
        for r in sorted({row["r"] for row in runs}):
            losses = {
                row["steps"]: row["loss"] for row in runs if (row["r"], row["width"]) == (r, width)
            }
            values = without_interval(numbers([losses.get(step) for step in steps]))
            curves.append(Curve.of(f"r = {r:g}", "loops", values, number=r))
        axes = ("steps of training", "error / variance of y, mean over k")
        title, name = f"one effective depth, {width} wide", f"iso-depth-width-{width}"
        found.append(
            Panel(name, title, *axes, steps, curves, log="x", levels=levels, picture="iso-depth")
        )
    return found


def verdict(fits: Fitted, result: Mapping[str, Any]) -> str:
    """phi and how well it is determined, the number of runs in the fit and what that means for it,
    and E."""
    free, known = fits.fits["free"], fits.certainty
    low = -np.inf if "phi" in known.low_at_edge else known.low["phi"]
    high = np.inf if "phi" in known.high_at_edge else known.high["phi"]
    ends = " to ".join(
        f"{end:.2f}" if np.isfinite(end) else "the search's edge" for end in (low, high)
    )
    lines = [f"phi = {free.law.phi:.2f}, 90 % interval {ends}: {_worth(free, fits, low, high)}"]
    if names := [name for name in known.not_determined if name != "phi"]:
        lines.append(f"of the law's other parameters, not determined: {', '.join(names)}")
    if free.r2 < _WELL:
        lines.append(f"the law describes these losses badly: R² is {free.r2:.2f}")
    left_out, total = len(result["on_plateau"]), len(result["runs"])
    by_r = {
        r: sum(row["r"] == r and not row["left_plateau"] for row in result["runs"])
        for r in result["settings"]["r"]
    }
    bayes, zero = result["bayes"], result["zero"]
    lines.append(
        f"{result['fitted']} of {total} runs left the plateau (loss at most "
        f"{highest(bayes, zero):.4f}: E + {LEAVES:g} (Z - E)) and are fitted; {left_out} did not"
        + (f": {', '.join(f'{n} of r = {r}' for r, n in by_r.items())}" if left_out else "")
    )
    lines.append(
        f"E = {bayes:.4f}, the Bayes error on the evaluation's prompts "
        f"({result['bayes_expected']:.4f} expected); Z = {zero:.4f}, predicting 0"
    )
    return "\n".join(lines)


def _worth(free: Fit, fits: Fitted, low: float, high: float) -> str:
    """The meaning of an interval of phi for a recurrence."""
    if "phi" in free.at_edge or (low <= 0 and high >= 1):
        return "it is not determined, both 0 (nothing) and 1 (as much as layers of its own) may be"
    meaning = "a recurrence is worth something, and less than layers of its own"
    if low > 1:
        meaning = "a recurrence is worth more than layers of its own"
    elif high < 0:
        meaning = "recurrences are worse than none"
    elif high >= 1:
        meaning = "a recurrence is worth something, possibly as much as layers of its own"
    elif low <= 0:
        meaning = "a recurrence is worth less than layers of its own, possibly nothing"
    if "phi" in fits.certainty.not_determined:
        return f"its value is not determined, but {meaning}"
    r = float(fits.table.r.max())
    return f"{meaning}; a shared parameter run {r:g} times counts as {r**free.law.phi:.2f}"


_of_paper = Paper("arXiv 2604.21106", "iso_depth_", size="116 runs of 20 layers on text").claim


def _phi(evidence: Evidence) -> Estimate:
    result = evidence.result("iso_depth")
    phi = result.get("phi")
    if phi is None:
        raise NotMeasured("the runs determine no law")
    low, high = (-math.inf if phi["low"] is None else phi["low"],
                 math.inf if phi["high"] is None else phi["high"])  # fmt: skip
    note = _NOTE
    if "phi" in result["not_determined"]:
        note += "; the losses leave phi open"
    return _sized(Estimate(phi["value"], low, high, 1, note=note), result)


@_of_paper(
    "recurrence_is_worth_something",
    "Running a block again is worth something: it counts for more parameters than it has.",
    "",
    "phi of the fitted law (0: nothing, 1: as much as layers of its own)",
    0.0,
    "above",
    "0.459",
)
def worth_something(evidence: Evidence) -> Estimate:
    """The interval of the fit, over clusters of runs."""
    return _phi(evidence)


@_of_paper(
    "recurrence_is_worth_less_than_layers",
    "Running a block again is worth less than layers of its own.",
    "",
    "phi of the fitted law (0: nothing, 1: as much as layers of its own)",
    1.0,
    "below",
    "0.459",
)
def worth_less_than_layers(evidence: Evidence) -> Estimate:
    """The interval of the fit, over clusters of runs."""
    return _phi(evidence)


@_of_paper(
    "sharing_costs",
    "At equal depth and equal steps, models that share layers more have more error.",
    "",
    "error above the Bayes error, the most recurrences over one, geometric mean over sizes",
    1.0,
    "above",
    "1.04 (2.4021 / 2.3088 nats at 2.15e19 FLOPs, without E)",
)
def sharing_costs(evidence: Evidence) -> Estimate:
    """Over the widths and steps at which both left the plateau."""
    result = evidence.result("iso_depth")
    if "losses" not in result:
        raise NotMeasured("iso_depth.json is of an earlier version: run the command again")
    excess = {
        (run["r"], run["width"], run["steps"]): run["loss"] - result["bayes"]
        for run in result["losses"]
    }
    most = max(result["settings"]["r"])
    ratios = [
        value / excess[1, width, steps]
        for (r, width, steps), value in excess.items()
        if r == most > 1 and (1, width, steps) in excess
    ]
    if not ratios:
        raise NotMeasured("no size at which models with and without recurrence left the plateau")
    return _sized(over_seeds(ratios, log=True, what="size")._replace(seeds=1, note=_NOTE), result)


def _sized(estimate: Estimate, result: Any) -> Estimate:
    settings = result["settings"]
    size = f"{result['fitted']} runs of {settings['depth']} layers, d = {settings['dims']}"
    return estimate._replace(steps=min(settings["steps"]), size=size)


if __name__ == "__main__":
    print("experiments.iso_depth: is now python run.py experiment=iso_depth", file=sys.stderr)
    raise SystemExit(2)
