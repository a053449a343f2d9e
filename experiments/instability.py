"""Exploding gradients where all loops count in the loss, and what cures them (arXiv 2311.12424,
Appendix B)."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from looplab.conf.mistakes import RunError
from looplab.conf.schema import Config, EvaluationConfig
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.evaluate_run import logged
from looplab.evaluation.panel import Curve, Panel, mean_of_seeds
from looplab.training.run_folder.run import Run

from .claims import Estimate, Evidence, NotMeasured, Paper
from .statistics import over_seeds

_EXPLODES = 100.0  # times the run's median: of plain trainings the largest gradient is 3 to 30


def measure(
    runs: Sequence[Run], settings: EvaluationConfig, unfinished: Sequence[Config] = ()
) -> dict[str, Any]:
    """The gradients of trainings of so many `steps` and `dims`. By name, of the window T or the
    cure: `largest`, the largest norm over the median one, of each seed, and `exploded`, of how many
    seeds it is above 100 or the training ended early. RunError for runs without the norms of each
    step."""
    norms: dict[str, list[Floats]] = {}
    for run in runs:
        found = np.array([record["grad_norm"] for record in logged(run)], dtype=np.float64)
        if len(found) < run.step:
            raise RunError(f"{run.path} logged less than training.log_every=1 does")
        norms.setdefault(_name(run.config), []).append(found)
    largest = {
        name: [float(each.max() / np.median(each)) for each in of] for name, of in norms.items()
    }
    early = [_name(config) for config in unfinished]
    exploded = {
        name: sum(value > _EXPLODES for value in of) + early.count(name)
        for name, of in largest.items()
    }
    x, axes = range(1, 1 + max(run.step for run in runs)), ("step", "norm of the gradient")
    panels = []
    for name, of in norms.items():
        seeds = len(of) + early.count(name)
        label = f"{name}: {exploded[name]} of {seeds} explode"
        curve = Curve.of("norm before clipping", "looped", mean_of_seeds(np.array(of)), name=name)
        file = f"gradients-{name}"
        panels.append(Panel(file, label, *axes, x, [curve], log="y", picture="gradients"))
    about = {"steps": runs[0].step, "dims": runs[0].config.task.dims}
    return {**about, "largest": largest, "exploded": exploded, "panels": panels}


def _name(config: Config) -> str:
    """The cure of a training, else its window."""
    training = config.training
    cures = {
        "clipping": training.clip, "decay": training.weight_decay,
        "precision": config.precision == "bf16",
    }  # fmt: skip
    return next((name for name, value in cures.items() if value), f"T = {config.loops.T}")


def _largest(evidence: Evidence, cure: str = "") -> Estimate:
    """The largest gradient over the median one with a cure; without, that of the largest window
    over that of the smallest, of the same seeds."""
    result = evidence.result("instability")
    found, about = result["largest"], {"steps": result["steps"], "size": f"d = {result['dims']}"}
    if cure:
        return over_seeds(found.get(cure, []), log=True)._replace(**about)
    windows = sorted((name for name in found if name.startswith("T")), key=lambda n: int(n[4:]))
    if len({len(found[name]) for name in windows}) != 1 or len(windows) < 2:
        raise NotMeasured("a training of some window is not finished")
    few, *_, many = (np.array(found[name]) for name in windows)
    return over_seeds(many / few, log=True)._replace(**about)


_of_paper = partial(
    Paper("arXiv 2311.12424", "instability_", steps=500_000, size="d = 20").claim,
    figure="Appendix B",
)
_LARGEST = "largest norm of the gradient over the median one"
_of_paper(
    "whole_window_explodes",
    "A loss of all twenty loops makes gradients explode that a loss of the last few does not.",
    quantity=f"{_LARGEST}, all loops over the last few",
    above=10.0,
)(_largest)

for _cure, _what in (
    ("clipping", "Clipping gradients"),
    ("decay", "Weight decay"),
    ("precision", "Products in bfloat16"),
):
    _of_paper(
        f"{_cure}_cures",
        f"{_what} keeps the gradients of a loss of all twenty loops from exploding.",
        quantity=_LARGEST,
        below=_EXPLODES,
        published="stable",
    )(partial(_largest, cure=_cure))
