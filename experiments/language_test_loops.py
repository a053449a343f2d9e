"""How many loops a language model can use after training, by where its loss stood.

result = measure(runs, EvaluationConfig(max_loops=48))     # looped runs, loops drawn in training
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypedDict

import numpy as np

from looplab.conf.checks.loops import most_loops
from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.evaluate_run import measured
from looplab.evaluation.panel import Curve, Panel
from looplab.training.run_folder.run import Run

from .claims import Estimate, Evidence, NotMeasured, claim
from .evidence import estimate_of
from .measuring import EstimateJson, Groups, SeedGroup, band, estimate, first_at_most, grouped

ALLOWED = 1.01  # times the least bits per byte


class UsefulGroup(TypedDict):
    """Runs that differ in their seeds alone, with the loops whose loss counted (T) and the most
    loops of training. `reached`: the loops after which bits per byte come within 1 % of the least,
    interpolated; `useful`: the last loop before they leave it again, over the most loops of
    training; `at_most` and `beyond`: the bits per byte after the most loops of training, and after
    the last loop that was evaluated over these."""

    label: str
    T: int
    most_loops: int
    reached: EstimateJson
    useful: EstimateJson
    at_most: EstimateJson
    beyond: EstimateJson


class UsefulResult(Groups[UsefulGroup]):
    """All groups, by T, and the pictures; `loops`, the most that were evaluated, limit `useful`.
    `all_over_last`: the loops reached with the loss of the most loops over those with the loss of
    the fewest."""

    loops: int
    all_over_last: EstimateJson


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> UsefulResult:
    """Bits per byte of the held-out text by loop. ConfigError for runs of pairs of numbers, and of
    a standard model."""
    for run in runs:
        if not run.task.is_text or run.config.model.family != "looped":
            raise ConfigError("task", f"must be a text, read by a looped model: {run.path} is not")
    groups = sorted(grouped(runs), key=lambda group: group.runs[0].config.loops.T)
    curves = [_bits(group) for group in groups]
    loops = min(values.shape[-1] for values in curves)
    pairs = [(group, values[..., :loops]) for group, values in zip(groups, curves, strict=True)]
    return {
        "loops": loops,
        "groups": [_result(group, values, settings) for group, values in pairs],
        "all_over_last": estimate(
            [pairs[-1][1], pairs[0][1]],
            lambda means: _reached(means[0]) / _reached(means[1]),
            settings,
            log=True,
        ),
        "panels": [_panel(pairs, settings)],
    }


def _bits(group: SeedGroup) -> Floats:
    """Of each seed and block by loop, [seeds, blocks, loops]."""
    arrays = [measured(run, run.config.evaluation)[1]["held_out"] for run in group.runs]
    longest = min(values.shape[1] for values in arrays)
    return np.stack([values[:, :longest] for values in arrays])


def _most(group: SeedGroup) -> int:
    loops = group.runs[0].config.loops
    return most_loops(loops.sampling, loops.b, loops.least)


def _result(group: SeedGroup, values: Floats, settings: EvaluationConfig) -> UsefulGroup:
    most = _most(group)

    def useful(means: Sequence[Floats]) -> Floats:
        return _last_near_best(means[0]) / most

    def reached(means: Sequence[Floats]) -> Floats:
        return _reached(means[0])

    def at_most(means: Sequence[Floats]) -> Floats:
        return np.asarray(means[0][..., most - 1])

    def beyond(means: Sequence[Floats]) -> Floats:
        return np.asarray(means[0][..., -1] / means[0][..., most - 1])

    return {
        "label": group.label,
        "T": group.runs[0].config.loops.T,
        "most_loops": most,
        "reached": estimate([values], reached, settings, log=True),
        "useful": estimate([values], useful, settings),
        "at_most": estimate([values], at_most, settings),
        "beyond": estimate([values], beyond, settings, log=True),
    }


def _reached(means: Floats) -> Floats:
    """The loops, at least 1, after which the least is first neared."""
    return 1 + first_at_most(means, ALLOWED * means.min(-1))


def _last_near_best(means: Floats) -> Floats:
    """The last loop, counted from 1, of those from the best on without a gap that are near it."""
    near = means <= ALLOWED * means.min(-1, keepdims=True)
    after_best = np.arange(means.shape[-1]) >= means.argmin(-1)[..., None]
    lost = after_best & ~near
    return np.where(lost.any(-1), lost.argmax(-1), means.shape[-1]).astype(np.float64)


def _panel(pairs: Sequence[tuple[SeedGroup, Floats]], settings: EvaluationConfig) -> Panel:
    """Bits per byte by loop, a curve for each group."""
    curves = []
    for group, values in pairs:
        T, most = group.runs[0].config.loops.T, _most(group)
        label = "loss of the last loop" if T == 1 else f"loss of the last {T} loops"
        label = "loss of all loops" if most <= T else label
        curves.append(
            Curve.of(
                label, "loops", band([values], lambda means: means[0], settings), number=T, b=most
            )
        )
    loops = pairs[0][1].shape[-1]
    axes = ("loop", "bits per byte")
    drawn = {(each.config.loops.least, _most(group)) for group, _ in pairs for each in group.runs}
    title = "trained on " + ", ".join(f"{least} to {most} loops" for least, most in sorted(drawn))
    return Panel("useful-loops", title, *axes, range(1, loops + 1), curves)


_Side = Literal["above", "below"]
# In Table 1 of arXiv 2605.18797 LT_i's and FLT's largest ratio is 1.001, LT's is 1.058.
_KEEPS = 1.01


def _window(evidence: Evidence, which: str) -> Any:
    """That of the last loop alone, of a window, or of all loops."""
    for each in evidence.result("language_test_loops")["groups"]:
        kind = "last" if each["T"] == 1 else "all" if each["T"] >= each["most_loops"] else "window"
        if kind == which:
            evidence.where(name="language", T=each["T"])
            return each
    raise NotMeasured(f"no runs with the loss of {which} loops")


def _keeps_beyond(name: str, which: str, text: str) -> None:
    @claim(
        f"language_{name}",
        f"With the loss of {text}, four times the loops of training do not make a language model "
        "worse.",
        source="arXiv 2605.18797, on budgets of loops, and arXiv 2311.12424, on the window",
        quantity="bits per byte after the most loops evaluated over those of training",
        line=_KEEPS,
        holds_if="below",
    )
    def keeps(evidence: Evidence) -> Estimate:
        return estimate_of(_window(evidence, which)["beyond"])


_keeps_beyond("last_loop_keeps", "last", "the last loop alone")
_keeps_beyond("window_keeps", "window", "a window of loops")
_keeps_beyond("all_loops_keep", "all", "all loops")


@claim(
    "language_all_loops_are_reached_sooner",
    "With the loss of all loops a language model comes near its best after fewer loops than with "
    "that of the last alone.",
    source="arXiv 2311.12424, on the window",
    quantity="loops until within 1 % of the least bits per byte, all over last",
    line=1.0,
    holds_if="below",
)
def all_loops_are_reached_sooner(evidence: Evidence) -> Estimate:
    for which in ("last", "all"):
        _window(evidence, which)
    return estimate_of(evidence.result("language_test_loops", "all_over_last"))
