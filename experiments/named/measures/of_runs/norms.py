"""What trainings logged of their stability: the norm of the residual stream, the gradient of the
first MLP, and whether they collapsed (arXiv 2605.18797).

result = measure(runs, EvaluationConfig())        # runs with training.log_norms=true
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict

import numpy as np

from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.evaluate_run import logged
from looplab.evaluation.panel import Curve, Panel, over_seeds
from looplab.experiments.stability.verdict import collapse
from looplab.training.assemble import trained_loops
from looplab.training.inside_loops import NORMS
from looplab.training.run_folder.run import Run

from .common import EstimateJson, Group, Groups, Missing, bits_per_byte, grouped, over_runs

_LABELS = {
    "first_residual": "residual norm after the first loop",
    "last_residual": "residual norm after the last loop",
    "mlp_grad_norm": "gradient norm of the first MLP, before clipping",
    "mlp_grad_norm_clipped": "gradient norm of the first MLP, clipped",
}
_END = 0.1  # of the steps: their mean is that at the end


class NormJson(EstimateJson):
    """A norm with its interval over seeds, and each seed's."""

    by_seed: list[float]


class NormsGroup(TypedDict):
    """Runs that differ in their seeds alone: each norm, by the names of metrics.jsonl, as the mean
    of the last tenth of training, and for each seed the reason why it collapsed, empty where it did
    not."""

    label: str
    kind: str
    loops: int
    norms: dict[str, NormJson]
    collapsed: list[str]


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> Groups[NormsGroup]:
    """Read each run's log. Missing for runs without logged norms."""
    one_loop = [run for run in runs if run.task.is_text and trained_loops(run.config) == 1]
    plain = [bits_per_byte(run) for run in one_loop]
    found = [_of_group(group, float(np.mean(plain)) if plain else None) for group in grouped(runs)]
    return {"groups": [each for each, _ in found], "panels": _panels(found)}


def _of_group(group: Group, plain: float | None) -> tuple[NormsGroup, list[dict[str, float]]]:
    """The group, and each seed's norms; `plain` are the bits per byte of one loop, if known."""
    seeds = [_of_run(run) for run in group.runs]
    by_seed = {name: [each[name] for each in seeds] for name in NORMS}
    first = group.runs[0]
    result: NormsGroup = {
        "label": group.label,
        "kind": first.config.model.connectivity or group.family,
        "loops": trained_loops(first.config),
        "norms": {name: {**over_runs(v), "by_seed": v} for name, v in by_seed.items()},
        "collapsed": [_collapse(run, plain) for run in group.runs],
    }
    return result, seeds


def _of_run(run: Run) -> dict[str, float]:
    records = logged(run)
    if not records or any(name not in records[-1] for name in NORMS):
        raise Missing(f"{run.path} has no norms in its log: training.log_norms=true")
    last = [each for each in records if each["step"] > (1 - _END) * run.step]
    return {name: float(np.mean([each[name] for each in last])) for name in NORMS}


def _collapse(run: Run, plain: float | None) -> str:
    final = None if plain is None else bits_per_byte(run)
    return collapse([each["loss"] for each in logged(run)], final, plain)


def _panels(found: Sequence[tuple[NormsGroup, list[dict[str, float]]]]) -> list[Panel]:
    """Each norm by the number of loops, a curve for each kind."""
    loops = sorted({group["loops"] for group, _ in found})
    kinds = list(dict.fromkeys(group["kind"] for group, _ in found))
    panels = []
    for name, label in _LABELS.items():
        curves: list[Any] = []
        for kind in kinds:
            seeds = {group["loops"]: each for group, each in found if group["kind"] == kind}
            count = max(map(len, seeds.values()))
            rows = [
                [seeds[K][seed][name] if seed < len(seeds.get(K, ())) else None for K in loops]
                for seed in range(count)
            ]
            curves.append(Curve.of(kind, kind, over_seeds(rows)))
        file = f"norms-{name.replace('_', '-')}"
        panels.append(Panel(file, label, "loops K", label, loops, curves, log="y"))
    return panels
