"""The claims of the papers on loops in language models, on small models of bytes."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, Literal

from looplab.evaluation.bootstrap import Floats

from .claim import Estimate, Evidence, NotMeasured, Paper, claim
from .select import Group, errors, estimate_of, groups, ratio
from .statistics import absolute, over_seeds

_Side = Literal["above", "below"]
# In Table 1 of arXiv 2605.18797 LT_i's and FLT's largest ratio is 1.001, LT's is 1.058.
_KEEPS = 1.01

_fully_looped = Paper(
    "arXiv 2605.18797", "language_", steps=4848, size="6 layers, d = 384, tokens of Qwen 3"
).claim


def bits(of: Group) -> Floats:
    """Bits per byte of each block of the held-out text after b loops, [seeds, blocks]."""
    return errors(of, "held_out")[..., of.loops - 1]


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
        found = evidence.result("norms")["groups"]
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
_NOTE = "one seed: the interval is over runs alone"

_iso_depth = Paper(
    "arXiv 2604.21106", "language_iso_depth_", size="116 runs of 20 layers, 4.64e17 to 2.15e19 FLOP"
).claim


def _phi(evidence: Evidence, kind: str) -> Estimate:
    phi = evidence.result("iso_flop", "phi").get(kind)
    if phi is None:
        raise NotMeasured(f"the runs with {kind} determine no law")
    evidence.where(name="language")
    low = -math.inf if phi["low"] is None else phi["low"]
    high = math.inf if phi["high"] is None else phi["high"]
    reason = phi["not_determined"]
    note = f"{_NOTE}; φ is not determined: {reason}" if reason else _NOTE
    return Estimate(phi["value"], low, high, 1, note=note)


@_iso_depth(
    "sharing_costs",
    "At equal FLOPs and depth each further sharing of layers costs: r1 < r2 < r4 < r8.",
    "the empirical minima",
    "least nats a byte over widths, r over the next smaller r: the smallest ratio of a budget, "
    "geometric mean over budgets",
    1.0,
    "above",
    "1.009 (six budgets)",
)
def sharing_costs(evidence: Evidence) -> Estimate:
    """Over budgets at which several r were trained. The order holds at a budget if its smallest
    ratio is above 1; the mean of all ratios would forgive a pair in the wrong order."""
    least = []
    for by_r in evidence.result("iso_flop", "minima").values():
        losses = [loss for _, loss in sorted(by_r.items(), key=lambda item: int(item[0]))]
        if len(losses) > 1:
            least.append(min(after / before for before, after in pairwise(losses)))
    if len(least) < 2:
        raise NotMeasured("fewer than two budgets with several numbers of recurrences")
    evidence.where(name="language")
    return over_seeds(least, log=True, what="budget")._replace(seeds=1, note=_NOTE)


def _worth(name: str, sentence: str, line: float, side: _Side) -> None:
    quantity = "φ of the fitted law (0: nothing, 1: as much as layers of its own)"

    @_iso_depth(f"recurrence_is_worth_{name}", sentence, "", quantity, line, side, "0.459")
    def worth(evidence: Evidence) -> Estimate:
        return _phi(evidence, _PLAIN)


_worth(
    "something",
    "Running a block again is worth something: it counts for more parameters than it has.",
    0.0,
    "above",
)
_worth(
    "less_than_layers",
    "Running a block again is worth less than layers of its own.",
    1.0,
    "below",
)


def _difference(evidence: Evidence, kind: str) -> Estimate:
    """φ of a kind less that of all gradients, by the outer ends of both intervals."""
    one, other = (_phi(evidence, each) for each in (kind, _PLAIN))
    return Estimate(
        one.mean - other.mean, one.low - other.high, one.high - other.low, 1, note=_NOTE
    )


@_iso_depth(
    "truncated_gradients_are_worth_less",
    "With gradients through half of the loops a recurrence is worth less.",
    "",
    "φ with gradients of half the loops less that with all",
    0.0,
    "below",
    "-0.08 to -0.11 (0.38 or 0.35 against 0.459)",
)
def truncated_gradients_are_worth_less(evidence: Evidence) -> Estimate:
    return _difference(evidence, _TRUNCATED)


@_iso_depth(
    "lanes_are_worth_more",
    "With hyper-connections between the loops a recurrence is worth more.",
    "",
    "φ with two lanes less that without",
    0.0,
    "above",
    "0.19 to 0.20 (0.65 or 0.66 against 0.459)",
)
def lanes_are_worth_more(evidence: Evidence) -> Estimate:
    return _difference(evidence, _LANES)


def _window(evidence: Evidence, which: str) -> Any:
    """That of the last loop alone, of a window, or of all loops."""
    for each in evidence.result("useful_loops")["groups"]:
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
    return estimate_of(evidence.result("useful_loops", "all_over_last"))


_residual_scaling = Paper(
    "arXiv 2606.18524",
    "language_scaling_",
    steps=20_000,
    size="12 to 48 layers, d = 768, FineWeb-Edu",
).claim


def _verdict(evidence: Evidence, kind: str, key: str) -> Any:
    """A movement or a gain; NotMeasured, with its reason, if it is unknown."""
    found = evidence.result("rates", kind)
    if key not in found:
        raise NotMeasured(f"no runs with residual_scaling={key}")
    if found[key]["verdict"] == "unknown":
        raise NotMeasured(found[key]["reason"])
    evidence.where(name="language")
    return found[key]


def _gains(name: str, scaling: str, label: str, published: str = "") -> None:
    @_residual_scaling(
        name,
        f"At its best learning rate 1/R has fewer bits per byte than {label} with many loops.",
        "Figure 5",
        f"least bits per byte with {label} less those with 1/R, at the most loops",
        0.0,
        "above",
        published,
    )
    def gains(evidence: Evidence) -> Estimate:
        return over_seeds(_verdict(evidence, "gain", scaling)["by_seed"])


_gains("linear_gains", "sqrt", "1/√R", "0.025 nats a token at R = 8")
_gains("linear_gains_over_none", "none", "no scaling")


@_residual_scaling(
    "linear_rate_stays",
    "With 1/R the best learning rate stays where it is however many loops there are.",
    "Figure 5",
    "octaves by which the best rate moves either way, most loops against one, linear",
    1.0,  # a step of the grid of rates
    "below",
    "a narrow band",
)
def linear_rate_stays(evidence: Evidence) -> Estimate:
    """The size of the movement."""
    return absolute(over_seeds(_verdict(evidence, "move", "linear")["by_seed"]))


def _falls(scaling: str, label: str) -> None:
    @_residual_scaling(
        f"{scaling}_rate_falls",
        f"With {label} the best learning rate falls with the number of loops.",
        "Figure 5",
        f"octaves by which the best rate falls, most loops against one, {scaling}",
        0.5,  # half a step of the grid of rates
        "above",
    )
    def falls(evidence: Evidence) -> Estimate:
        found = _verdict(evidence, "move", scaling)["by_seed"]
        return over_seeds([-each for each in found])


_falls("none", "no residual scaling")
_falls("sqrt", "1/√R")
