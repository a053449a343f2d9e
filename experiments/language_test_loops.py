"""The number of loops that a language model can use after training, by where its loss stood.

result = measure(runs, EvaluationConfig(max_loops=48))     # looped runs, loops drawn in training
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from looplab.conf.checks.loops import most_loops
from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.evaluate_run import measured
from looplab.evaluation.panel import Curve, Panel
from looplab.training.run_folder.run import Run

from .claims import Estimate, Evidence, NotMeasured, claim
from .measuring import band, estimate, first_at_most, grouped

ALLOWED = 1.01  # times the least bits per byte
# In Table 1 of arXiv 2605.18797 LT_i's and FLT's largest ratio is 1.001, LT's is 1.058.
_KEEPS = 1.01


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> dict[str, Any]:
    """Bits per byte of the held-out text by loop, of looped language models.

    Each of the `groups`, by the loops whose loss counted (`T`), has the `most_loops` of training,
    and `beyond`, the bits per byte after the most loops that all were evaluated with over those
    after the most of training. `all_over_last` is the number of loops after which bits per byte
    come within 1 % of the least, interpolated, with the loss of the most loops over the same with
    the loss of the fewest.
    """
    groups = sorted(grouped(runs), key=lambda group: group.config.loops.T)
    parts = [[measured(r, r.config.evaluation)[1]["held_out"] for r in g.runs] for g in groups]
    loops = min(array.shape[1] for part in parts for array in part)
    bits = [np.stack([array[:, :loops] for array in part]) for part in parts]
    found, curves, ranges = [], [], set()
    for group, values in zip(groups, bits, strict=True):  # [seeds, blocks, loops]
        trained = group.config.loops
        T, most = trained.T, most_loops(trained.sampling, trained.b, trained.least)
        ends = values[..., [-1, most - 1]]
        beyond = estimate(
            [ends], settings, lambda means: means[0][..., 0] / means[0][..., 1], log=True
        )
        found.append({"T": T, "most_loops": most, "beyond": beyond})
        label = "loss of the last loop" if T == 1 else f"loss of the last {T} loops"
        label = "loss of all loops" if most <= T else label
        curves.append(Curve.of(label, "loops", band([values], settings), number=T, b=most))
        ranges.add((trained.least, most))

    def ratio(means: Sequence[Floats]) -> Floats:
        """The ratio of the loops, at least 1, after which the least is first neared."""
        first, second = (1 + first_at_most(each, ALLOWED * each.min(-1)) for each in means)
        return first / second

    title = "trained on " + ", ".join(f"{least} to {most} loops" for least, most in sorted(ranges))
    x = range(1, loops + 1)

    return {
        "groups": found,
        "all_over_last": estimate([bits[-1], bits[0]], settings, ratio, log=True),
        "panels": [Panel("useful-loops", title, "loop", "bits per byte", x, curves)],
    }


def _window(evidence: Evidence, which: str) -> Any:
    """The group whose loss is that of the last loop alone, of a window, or of all loops."""
    for each in evidence.result("language_test_loops")["groups"]:
        kind = "last" if each["T"] == 1 else "all" if each["T"] >= each["most_loops"] else "window"
        if kind == which:
            evidence.where(name="language", T=each["T"])
            return each
    raise NotMeasured(f"no runs with the loss of {which} loops")


def _keeps(evidence: Evidence, which: str) -> Estimate:
    return Estimate.read(_window(evidence, which)["beyond"])


for _name, _which, _text in (
    ("last_loop_keeps", "last", "the last loop alone"),
    ("window_keeps", "window", "a window of loops"),
    ("all_loops_keep", "all", "all loops"),
):
    claim(
        f"language_{_name}",
        f"With the loss of {_text}, four times the loops of training do not make a language model "
        "worse.",
        source="arXiv 2605.18797, on budgets of loops, and arXiv 2311.12424, on the window",
        quantity="bits per byte after the most loops evaluated over those of training",
        below=_KEEPS,
    )(partial(_keeps, which=_which))


@claim(
    "language_all_loops_are_reached_sooner",
    "With the loss of all loops a language model comes near its best after fewer loops than with "
    "that of the last alone.",
    source="arXiv 2311.12424, on the window",
    quantity="loops until within 1 % of the least bits per byte, all over last",
    below=1.0,
)
def all_loops_are_reached_sooner(evidence: Evidence) -> Estimate:
    for which in ("last", "all"):
        _window(evidence, which)
    return Estimate.read(evidence.result("language_test_loops", "all_over_last"))
