"""What trainings logged of their stability: the norm of the residual stream, the gradient of the
first MLP, and whether they collapsed (arXiv 2605.18797).

result = measure(runs, EvaluationConfig())        # runs with training.log_norms=true
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypedDict

import numpy as np

from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.evaluate_run import logged
from looplab.evaluation.panel import Curve, Panel, mean_of_seeds
from looplab.experiments.stability.verdict import collapse
from looplab.training.assemble import trained_loops
from looplab.training.inside_loops import NORMS
from looplab.training.run_folder.run import Run

from .claims import Estimate, Evidence, NotMeasured, Paper
from .evidence import Group, errors, groups, ratio
from .measuring import EstimateJson, Groups, Missing, SeedGroup, bits_per_byte, grouped, over_runs
from .statistics import over_seeds

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


def _of_group(group: SeedGroup, plain: float | None) -> tuple[NormsGroup, list[dict[str, float]]]:
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
            curves.append(Curve.of(kind, kind, mean_of_seeds(rows)))
        file = f"norms-{name.replace('_', '-')}"
        panels.append(Panel(file, label, "loops K", label, loops, curves, log="y"))
    return panels


_Side = Literal["above", "below"]
# In Table 1 of arXiv 2605.18797 LT_i's and FLT's largest ratio is 1.001, LT's is 1.058.
_KEEPS = 1.01


def bits(of: Group) -> Floats:
    """Bits per byte of each block of the held-out text after b loops, [seeds, blocks]."""
    return errors(of, "held_out")[..., of.loops - 1]


_fully_looped = Paper(
    "arXiv 2605.18797", "language_", steps=4848, size="6 layers, d = 384, tokens of Qwen 3"
).claim


def _by_loops(evidence: Evidence, variant: str) -> list[Group]:
    """The groups of a variant of more than one loop, by their loops; NotMeasured for fewer than
    two."""
    found = groups(evidence, name="language", connectivity=variant)
    found = sorted((each for each in found if each.loops > 1), key=lambda each: each.loops)
    if len(found) < 2:
        raise NotMeasured(f"{variant} has one number of loops")
    return found


def _most_over_fewest(evidence: Evidence, variant: str) -> Estimate:
    found = _by_loops(evidence, variant)
    return ratio([(found[-1], found[0])], bits)


@_fully_looped(
    "LT_worsens",
    "A plain looped transformer (LT) gets worse with more loops.",
    "Table 1",
    "bits per byte, the most loops over the fewest, LT",
    1.0,
    "above",
    "1.058 (1.115 / 1.054, 9 loops against 3)",
)
def lt_worsens(evidence: Evidence) -> Estimate:
    """Between the numbers of loops above 1 that were trained."""
    return _most_over_fewest(evidence, "LT")


def _keeps(variant: str, published: str) -> None:
    @_fully_looped(
        f"{variant}_keeps",
        f"With more loops {variant} does not get worse.",
        "Table 1",
        f"bits per byte, the most loops over the fewest, {variant}",
        _KEEPS,
        "below",
        published,
    )
    def keeps(evidence: Evidence) -> Estimate:
        return _most_over_fewest(evidence, variant)


_keeps("LT_i", "1.001 (1.044 / 1.043)")
_keeps("FLT", "0.996 (1.040 / 1.044)")


def _at_most(
    name: str, sentence: str, figure: str, pair: tuple[str, str], side: _Side, published: str
) -> None:
    """A claim on the ratio of two variants at the most loops, on the same blocks."""
    quantity = f"bits per byte at the most loops, {pair[0]} over {pair[1]}"

    @_fully_looped(name, sentence, figure, quantity, 1.0, side, published)
    def at_most(evidence: Evidence) -> Estimate:
        above, below = (_by_loops(evidence, variant)[-1] for variant in pair)
        return ratio([(above, below)], bits)


_at_most(
    "FLT_below_LT",
    "With many loops the fully looped transformer has fewer bits per byte than the plain one.",
    "Table 1",
    ("FLT", "LT"),
    "below",
    "0.933 (1.040 / 1.115, 9 loops)",
)
_at_most(
    "FLT_res_above_FLT",
    "Adding the last loop's output at every layer (FLT_res) is worse than asking with it (FLT).",
    "Figure 4",
    ("FLT_res", "FLT"),
    "above",
    "FLT_res collapses",
)


def _residual(
    name: str, sentence: str, variant: str, line: float, side: _Side, published: str
) -> None:
    @_fully_looped(
        name,
        sentence,
        "Figure 2",
        f"residual norm after the first loop, the most loops over the fewest, {variant}",
        line,
        side,
        published,
    )
    def residual(evidence: Evidence) -> Estimate:
        found = evidence.result("language_fully_looped")["groups"]
        of_variant = [each for each in found if each["kind"] == variant and each["loops"] > 1]
        if len(of_variant) < 2:
            raise NotMeasured(f"{variant} has one number of loops")
        of_variant.sort(key=lambda each: int(each["loops"]))
        evidence.where(name="language", connectivity=variant)
        ends = [of_variant[end]["norms"]["first_residual"] for end in (-1, 0)]
        if ends[0]["seeds"] != ends[1]["seeds"]:
            raise NotMeasured("the numbers of loops have different seeds")
        return over_seeds(
            [most / few for most, few in zip(*(each["by_seed"] for each in ends), strict=True)],
            log=True,
        )


_residual(
    "LT_residual_grows",
    "The residual stream of LT is larger the more loops it is trained with.",
    "LT",
    1.0,
    "above",
    "rises until LT-12 collapses",
)
_residual(
    "FLT_residual_keeps",
    "The residual stream of FLT stays as large whatever the number of loops.",
    "FLT",
    1.5,
    "below",
    "flat",
)


_PLAIN, _TRUNCATED, _LANES = "gradients of all loops", "gradients of half the loops", "lanes"
