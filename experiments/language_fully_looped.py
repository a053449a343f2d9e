"""What trainings logged of their stability: the norm of the residual stream, the gradient of the
first MLP, and whether they collapsed (arXiv 2605.18797).

result = measure(runs, EvaluationConfig())        # runs with training.log_norms=true
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.evaluate_run import logged
from looplab.evaluation.panel import Curve, Panel, mean_of_seeds
from looplab.training.assemble import trained_loops
from looplab.training.inside_loops import NORMS
from looplab.training.run_folder.run import Run

from .claims import Estimate, Evidence, NotMeasured, Paper
from .evidence import Group, errors, groups, measured_groups, ratio
from .measuring import Missing, SeedGroup, bits_per_byte, grouped, over_runs
from .residual_scaling_trained import collapse
from .statistics import over_seeds

_LABELS = {
    "first_residual": "residual norm after the first loop",
    "last_residual": "residual norm after the last loop",
    "mlp_grad_norm": "gradient norm of the first MLP, before clipping",
    "mlp_grad_norm_clipped": "gradient norm of the first MLP, clipped",
}
_END = 0.1  # of the steps: their mean is that at the end
# In Table 1 of arXiv 2605.18797 LT_i's and FLT's largest ratio is 1.001, LT's is 1.058.
_KEEPS = 1.01

_fully_looped = Paper(
    "arXiv 2605.18797", "language_", steps=4848, size="6 layers, d = 384, tokens of Qwen 3"
).claim


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> dict[str, Any]:
    """Read each run's log. Missing for runs without logged norms.

    Each of the `groups` has its `kind`, the connectivity, its `loops`, each of its `norms`, by the
    names of metrics.jsonl, as the mean of the last tenth of training, with each seed's (`by_seed`),
    and `collapsed`, for each seed the reason why it did, empty where it did not.
    """
    one_loop = [run for run in runs if run.task.is_text and trained_loops(run.config) == 1]
    plain = float(np.mean([bits_per_byte(run) for run in one_loop])) if one_loop else None
    found = [_of_group(group, plain) for group in grouped(runs)]
    return {"groups": found, "panels": [_panel(name, found) for name in _LABELS]}


def _of_group(group: SeedGroup, plain: float | None) -> dict[str, Any]:
    """`plain` are the bits per byte of one loop, if known."""
    by_seed = [_norms(run) for run in group.runs]
    norms, collapsed = {}, []
    for name in NORMS:
        values = [each[name] for each in by_seed]
        norms[name] = {**over_runs(values).plain(), "by_seed": values}
    for run in group.runs:
        final = None if plain is None else bits_per_byte(run)
        collapsed.append(collapse([each["loss"] for each in logged(run)], final, plain))
    kind = group.config.model.connectivity or group.family
    found = {"label": group.label, "kind": kind, "loops": group.b}
    return {**found, "norms": norms, "collapsed": collapsed}


def _norms(run: Run) -> dict[str, float]:
    records = logged(run)
    if not records or any(name not in records[-1] for name in NORMS):
        raise Missing(f"{run.path} has no norms in its log: training.log_norms=true")
    last = [each for each in records if each["step"] > (1 - _END) * run.step]
    return {name: float(np.mean([each[name] for each in last])) for name in NORMS}


def _panel(name: str, found: Sequence[Mapping[str, Any]]) -> Panel:
    """A norm by the number of loops, a curve for each kind."""
    loops = sorted({group["loops"] for group in found})
    curves = []
    for kind in dict.fromkeys(group["kind"] for group in found):
        of_kind = [group for group in found if group["kind"] == kind]
        seeds = {group["loops"]: group["norms"][name]["by_seed"] for group in of_kind}
        rows = [
            [seeds[K][seed] if seed < len(seeds.get(K, ())) else None for K in loops]
            for seed in range(max(map(len, seeds.values())))
        ]
        curves.append(Curve.of(kind, kind, mean_of_seeds(rows)))
    file, label = f"norms-{name.replace('_', '-')}", _LABELS[name]
    return Panel(file, label, "loops K", label, loops, curves, log="y")


def bits(of: Group) -> Floats:
    """Bits per byte of each block of the held-out text after b loops, [seeds, blocks]."""
    return errors(of, "held_out")[..., of.b - 1]


def _by_loops(evidence: Evidence, variant: str) -> list[Group]:
    """The groups of a variant of more than one loop, by their loops; NotMeasured for fewer than
    two."""
    found = groups(evidence, name="language", connectivity=variant)
    found = sorted((each for each in found if each.b > 1), key=lambda each: each.b)
    if len(found) < 2:
        raise NotMeasured(f"{variant} has one number of loops")
    return found


def _most_over_fewest(evidence: Evidence, variant: str) -> Estimate:
    found = _by_loops(evidence, variant)
    return ratio([(found[-1], found[0])], bits)


_fully_looped(
    "LT_worsens",
    "A plain looped transformer (LT) gets worse with more loops.",
    "Table 1",
    "bits per byte, the most loops over the fewest, LT",
    1.0,
    "above",
    "1.058 (1.115 / 1.054, 9 loops against 3)",
)(partial(_most_over_fewest, variant="LT"))

for _variant, _published in (("LT_i", "1.001 (1.044 / 1.043)"), ("FLT", "0.996 (1.040 / 1.044)")):
    _fully_looped(
        f"{_variant}_keeps",
        f"With more loops {_variant} does not get worse.",
        "Table 1",
        f"bits per byte, the most loops over the fewest, {_variant}",
        _KEEPS,
        "below",
        _published,
    )(partial(_most_over_fewest, variant=_variant))


def _at_most(evidence: Evidence, variant: str, other: str) -> Estimate:
    """The ratio of two variants at the most loops, on the same blocks."""
    above, below = (_by_loops(evidence, each)[-1] for each in (variant, other))
    return ratio([(above, below)], bits)


_fully_looped(
    "FLT_below_LT",
    "With many loops the fully looped transformer has fewer bits per byte than the plain one.",
    "Table 1",
    "bits per byte at the most loops, FLT over LT",
    1.0,
    "below",
    "0.933 (1.040 / 1.115, 9 loops)",
)(partial(_at_most, variant="FLT", other="LT"))

_fully_looped(
    "FLT_res_above_FLT",
    "Adding the last loop's output at every layer (FLT_res) is worse than asking with it (FLT).",
    "Figure 4",
    "bits per byte at the most loops, FLT_res over FLT",
    1.0,
    "above",
    "FLT_res collapses",
)(partial(_at_most, variant="FLT_res", other="FLT"))


def _residual(evidence: Evidence, variant: str) -> Estimate:
    """The residual norm after the first loop at the most loops over that at the fewest."""
    found = measured_groups(evidence, "language_fully_looped", kind=variant)
    found = sorted((each for each in found if each["loops"] > 1), key=lambda each: each["loops"])
    if len(found) < 2:
        raise NotMeasured(f"{variant} has one number of loops")
    evidence.where(name="language", connectivity=variant)
    most, few = (found[end]["norms"]["first_residual"] for end in (-1, 0))
    if most["seeds"] != few["seeds"]:
        raise NotMeasured("the numbers of loops have different seeds")
    return over_seeds(np.divide(most["by_seed"], few["by_seed"]), log=True)


_fully_looped(
    "LT_residual_grows",
    "The residual stream of LT is larger the more loops it is trained with.",
    "Figure 2",
    "residual norm after the first loop, the most loops over the fewest, LT",
    1.0,
    "above",
    "rises until LT-12 collapses",
)(partial(_residual, variant="LT"))

_fully_looped(
    "FLT_residual_keeps",
    "The residual stream of FLT stays as large whatever the number of loops.",
    "Figure 2",
    "residual norm after the first loop, the most loops over the fewest, FLT",
    1.5,
    "below",
    "flat",
)(partial(_residual, variant="FLT"))
