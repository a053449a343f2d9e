"""Prompts two and four times as long as those of training (arXiv 2409.15647).

result = measure(runs, EvaluationConfig(prompts=512))     # runs of model.block=gpt2, llama
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypedDict

import numpy as np

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.errors import evaluation_prompts
from looplab.evaluation.panel import Curve, Panel
from looplab.training.assemble import trained_loops
from looplab.training.run_folder.run import Run

from .claims import Estimate, Evidence, NotMeasured, claim
from .evidence import both_families, estimate_of, measured_groups
from .in_context import NO_WORSE
from .measuring import EstimateJson, GroupsOnPrompts, SeedGroup, band, estimate, grouped, unrolled

TIMES = (2, 4)  # the lengths over that of training


class LengthGroup(TypedDict):
    """Runs that differ in their seeds alone. `growth`: the error of the last query of prompts so
    many times as long as in training, over that at the length of training."""

    label: str
    family: str
    block: str
    growth: dict[str, EstimateJson]


class LengthResult(GroupsOnPrompts[LengthGroup]):
    """All groups; `looped_over_standard`, the looped model's error over the standard one's at the
    longest prompts, by block where both were trained; and the pictures."""

    points: int
    looped_over_standard: dict[str, EstimateJson]


class _Errors(NamedTuple):
    """The errors [seeds, prompts, examples] at b of a group on the longest prompts, of which the
    shorter ones are the beginnings."""

    group: SeedGroup
    values: Floats

    @property
    def block(self) -> str:
        """gpt2 with learned positions, llama with rotary ones."""
        return self.group.runs[0].config.model.block


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> LengthResult:
    """Errors at b on `settings.prompts` prompts. ConfigError for runs of several tasks, and for
    models without positions for the longest prompts."""
    if len({(run.task, run.config.task.points) for run in runs}) > 1:
        raise ConfigError("task", "must be the same in all runs")
    points = runs[0].config.task.points
    longest = max(TIMES) * points
    for run in runs:
        if run.model.spec.n_positions < longest:
            raise ConfigError("model.n_positions", f"must be at least {longest} in {run.path}")
    prompts = evaluation_prompts(runs[0].task, settings.prompts, longest, settings.seed)
    ys = prompts.ys.double().numpy()
    found = []
    for group in grouped(runs):
        loops = trained_loops(group.runs[0].config)
        models = unrolled(group.runs, prompts, loops, settings.batch_size)[:, -1]
        errors = np.square(models - ys) / group.runs[0].task.divisor
        found.append(_Errors(group, errors))
    by_kind = {(each.group.family, each.block): each for each in found}
    if len(by_kind) < len(found):
        raise ConfigError("model", "must differ between the groups of runs: family or block")
    return {
        "prompts": settings.prompts,
        "points": points,
        "groups": [_result(each, points, settings) for each in found],
        "looped_over_standard": {
            block: estimate(
                [by_kind[family, block].values[..., -1] for family in ("looped", "standard")],
                lambda means: means[0] / means[1],
                settings,
                log=True,
            )
            for family, block in by_kind
            if family == "standard" and ("looped", block) in by_kind
        },
        "panels": [_panel(found, points, settings)],
    }


def _result(each: _Errors, points: int, settings: EvaluationConfig) -> LengthGroup:
    return {
        "label": each.group.label,
        "family": each.group.family,
        "block": each.block,
        "growth": {
            str(times): estimate(
                [each.values[..., [times * points - 1, points - 1]]],
                lambda means: means[0][..., 0] / means[0][..., 1],
                settings,
                log=True,
            )
            for times in TIMES
        },
    }


def _panel(found: Sequence[_Errors], points: int, settings: EvaluationConfig) -> Panel:
    """Errors by examples, up to the longest prompts."""
    curves = [
        Curve.of(
            each.group.label,
            each.group.family if each.block == "gpt2" else f"{each.group.family}, {each.block}",
            band([each.values], lambda means: means[0], settings),
        )
        for each in found
    ]
    title = f"models trained on {points} pairs"
    axes = ("in-context examples k", "squared error over the variance of y")
    return Panel("length", title, *axes, range(max(TIMES) * points), curves, log="y")


_FAN = "arXiv 2409.15647"
_GROWTH = "error of the last query of prompts {} as long as in training over that at its length"


@claim(
    "length_rotary_keeps_its_error",
    "With relative positions a looped model errs no more on prompts twice as long as in training.",
    source=f"{_FAN} (arithmetic and copying, without positions)",
    quantity=_GROWTH.format("twice"),
    line=NO_WORSE,
    holds_if="below",
)
def rotary_keeps_its_error(evidence: Evidence) -> Estimate:
    return estimate_of(_growth(evidence, "llama"))


@claim(
    "length_learned_positions_fail",
    "With learned positions its error on such prompts is more than twice as large.",
    source=f"{_FAN}, on positions that training never used",
    quantity=_GROWTH.format("twice"),
    line=2.0,
    holds_if="above",
)
def learned_positions_fail(evidence: Evidence) -> Estimate:
    return estimate_of(_growth(evidence, "gpt2"))


@claim(
    "length_looped_errs_less_than_standard",
    "With relative positions a looped model errs less than a standard one on prompts four times as "
    "long as in training.",
    source=f"{_FAN}, on looped and standard transformers",
    quantity="error of the last query of prompts four times as long, looped over standard",
    line=1.0,
    holds_if="below",
    published="looped models generalise to longer inputs (other tasks)",
)
def looped_errs_less_than_standard(evidence: Evidence) -> Estimate:
    ratios = evidence.result("length")["looped_over_standard"]
    if "llama" not in ratios:
        raise NotMeasured("no looped and standard model with relative positions")
    both_families(evidence, block="llama")
    return estimate_of(ratios["llama"])


def _growth(evidence: Evidence, block: str) -> Any:
    """The growth of the looped model with these blocks, on prompts twice as long."""
    for group in measured_groups(evidence, "length"):
        if group["block"] == block:
            evidence.where(family="looped", block=block)
            return group["growth"]["2"]
    raise NotMeasured(f"no looped model of {block} blocks")
