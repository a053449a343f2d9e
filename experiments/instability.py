"""Unstable training where all loops count in the loss, and what cures it (arXiv 2311.12424).

Measured are its gradients, the rises of its loss and its final error (Section 4.2, Appendix B).
"""

from collections.abc import Sequence

import numpy as np

from looplab.conf.mistakes import RunError
from looplab.conf.schema import Config, EvaluationConfig
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.evaluate_run import logged
from looplab.evaluation.statistics import Estimate, NotMeasured, over_seeds
from looplab.show.panel import Curve, Panel, mean_of_seeds
from looplab.training.run_folder.metrics import smoothed
from looplab.training.run_folder.run import Run

from .evidence import Evidence
from .fully_looped import final_error
from .question import Result

_EXPLODES = 100.0  # times the run's median: of plain trainings the largest gradient is 3 to 30
_DECAY = 0.9  # of the smoothed loss
_SETTLED = 10  # losses that a smoothed one needs


def measure(
    runs: Sequence[Run], settings: EvaluationConfig, unfinished: Sequence[Config] = ()
) -> Result:
    """The trainings, of so many `steps` and `dims`. By name, of the window T or the cure, of each
    seed: `largest`, the largest norm of the gradient over the median one; `spike`, the largest
    factor by which the smoothed loss is above an earlier one; and `error`, the mean one at b loops
    over that of predicting zero. `exploded` is of how many of its `seeds` the largest is above 100
    or the training ended early; `norm`, the norm of the gradient by step, is a curve over the
    others. RunError for runs without the norms of each step."""
    norms: dict[str, list[Floats]] = {}
    spikes: dict[str, list[float]] = {}
    final: dict[str, list[float]] = {}
    for run in runs:
        records = logged(run)
        name = _name(run.config)
        if len(records) < run.step:
            raise RunError(f"{run.path} logged less than training.log_every=1 does")
        norms.setdefault(name, []).append(_column(records, "grad_norm"))
        # The first smoothed losses are means of few and rise by chance.
        losses = smoothed(_column(records, "loss"), _DECAY)[_SETTLED - 1 :]
        spikes.setdefault(name, []).append(float((losses / np.minimum.accumulate(losses)).max()))
        final.setdefault(name, []).append(final_error(run, settings))
    result: Result = {"steps": runs[0].step, "dims": runs[0].config.task.dims}
    result |= {"largest": {}, "spike": spikes, "error": final, "exploded": {}, "seeds": {}}
    result["norm"] = {}
    # A training that ended early counts as one that exploded.
    early = [_name(config) for config in unfinished]
    for name, by_seed in norms.items():
        largest = [float(norm.max() / np.median(norm)) for norm in by_seed]
        exploded = sum(ratio > _EXPLODES for ratio in largest)
        result["largest"][name] = largest
        result["exploded"][name] = exploded + early.count(name)
        result["seeds"][name] = len(by_seed) + early.count(name)
        result["norm"][name] = mean_of_seeds(np.array(by_seed))
    return result


def panels(result: Result) -> list[Panel]:
    """The norm of the gradient by step, a panel for each window and cure."""
    steps = range(1, 1 + max(len(norm["mean"]) for norm in result["norm"].values()))
    axes = ("step", "norm of the gradient", steps)
    drawn = []
    for name, norm in result["norm"].items():
        title = f"{name}: {result['exploded'][name]} of {result['seeds'][name]} explode"
        curve = Curve.of("norm before clipping", "looped", norm, name=name)
        panel = Panel(f"gradients-{name}", title, *axes, [curve], log="y", picture="gradients")
        drawn.append(panel)
    return drawn


def _column(records: Sequence[Result], name: str) -> Floats:
    return np.array([record[name] for record in records], dtype=np.float64)


def _name(config: Config) -> str:
    """The cure of a training, else its window."""
    training = config.training
    cures = {
        "clipping": training.clip,
        "decay": training.weight_decay,
        "precision": config.precision == "bf16",
    }
    return next((name for name, value in cures.items() if value), f"T = {config.loops.T}")


def largest_window_over_smallest(evidence: Evidence, quantity: str) -> Estimate:
    """A quantity of the largest window over that of the smallest window, of the same seeds."""
    result = evidence.result("instability")
    by_training = result[quantity]
    windows = _windows(by_training)
    above = by_training[windows[-1]]
    return _over_smallest_window(result, quantity, above, "some window")


def cured_over_smallest_window(evidence: Evidence, quantity: str, cure: str) -> Estimate:
    """A quantity of the largest window with a cure over that of the smallest window without, of the
    same seeds."""
    result = evidence.result("instability")
    above = result[quantity].get(cure, [])
    return _over_smallest_window(result, quantity, above, cure)


def cured_over_uncured(evidence: Evidence, quantity: str, cure: str) -> Estimate:
    """A quantity of the largest window with a cure over that without, of the same seeds."""
    result = evidence.result("instability")
    by_training = result[quantity]
    uncured = by_training[_windows(by_training)[-1]]
    return _ratio(result, by_training.get(cure, []), uncured, cure)


def _windows(by_training: Result) -> list[str]:
    """The names of the windows, 'T = 5', in rising order."""
    windows = [name for name in by_training if name.startswith("T")]
    if len(windows) < 2:
        raise NotMeasured("a training of some window is not finished")
    return sorted(windows, key=lambda name: int(name.removeprefix("T = ")))


def _over_smallest_window(
    result: Result, quantity: str, above: Sequence[float], what: str
) -> Estimate:
    smallest = _windows(result[quantity])[0]
    return _ratio(result, above, result[quantity][smallest], what)


def _ratio(result: Result, above: Sequence[float], below: Sequence[float], what: str) -> Estimate:
    """The ratio of one number a seed to another; NotMeasured where a training of `what` lacks."""
    if len(above) != len(below):
        raise NotMeasured(f"a training of {what} is not finished")
    estimate = over_seeds(np.array(above) / np.array(below), log=True)
    return estimate._replace(steps=result["steps"], size=f"d = {result['dims']}")
