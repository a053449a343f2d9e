"""Prompts two and four times as long as those of training (arXiv 2409.15647)."""

from collections.abc import Sequence
from typing import Any

from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.groups import labelled
from looplab.evaluation.results import SQUARED_ERROR, examples_name
from looplab.evaluation.statistics import Estimate
from looplab.show.panel import Curve, Panel
from looplab.training.run_folder.run import Run
from looplab.training.validation import evaluation_prompts

from .evidence import Evidence, of_group, of_runs
from .question import Result, band, estimate, looped_over_standard, paired_ratio, squared_errors

_LONGEST = 4  # times the length of training, which model.n_positions must hold


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> Result:
    """Errors at b on `settings.prompts` prompts, of runs of one task.

    Each of the `groups` has its `block` (gpt2 with learned positions, llama with rotary ones), its
    `errors` by the number of examples, and `growth`: the error of the last query of prompts twice
    as long as in training over that at the length of training. `points` is this length, in pairs.
    `looped_over_standard` is the looped model's error over the standard one's at the longest
    prompts, by block where both were trained.
    """
    points = runs[0].config.task.points
    # The shorter prompts are the beginnings of the longest.
    prompts = evaluation_prompts(runs[0].task, settings.prompts, _LONGEST * points, settings.seed)
    groups = []
    last: dict[tuple[str, Any], Floats] = {}
    for label, group in labelled(runs):
        block = group.config.model.block
        errors = squared_errors(group, prompts, settings)[:, :, -1]  # [seeds, prompts, examples]
        last[group.family, block] = errors[..., -1]
        both = errors[..., [2 * points - 1, points - 1]]
        growth = estimate([both], settings, paired_ratio, log=True)
        about = {"label": label, "family": group.family, "block": block}
        groups.append(about | {"growth": {"2": growth}, "errors": band([errors], settings)})
    return {
        "points": points,
        "groups": groups,
        "looped_over_standard": looped_over_standard(last, settings),
    }


def panels(result: Result) -> list[Panel]:
    """Errors by the number of examples."""
    curves = []
    for group in result["groups"]:
        kind = group["family"]
        if group["block"] != "gpt2":
            kind += f", {group['block']}"
        curves.append(Curve.of(group["label"], kind, group["errors"]))
    points = result["points"]
    title = f"models trained on {points} pairs"
    axes = (examples_name(SQUARED_ERROR), SQUARED_ERROR)
    return [Panel("length", title, *axes, range(_LONGEST * points), curves, log="y")]


def growth(evidence: Evidence, block: str) -> Estimate:
    """The last query's error on prompts twice as long as in training over that at its length."""
    return of_group(evidence, "length", "growth", "2", family="looped", block=block)


def over_standard(evidence: Evidence, block: str) -> Estimate:
    """The last query's error on prompts four times as long as in training, looped over standard."""
    return of_runs(evidence, "length", "looped_over_standard", block, block=block)
