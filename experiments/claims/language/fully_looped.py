"""The claims of arXiv 2605.18797 on its loops, on language models of bytes."""

from __future__ import annotations

from typing import Literal

from reloop.evaluation.bootstrap import Floats

from ..claim import Estimate, Evidence, NotMeasured, Paper
from ..select import Group, errors, groups, ratio
from ..statistics import over_seeds

_Side = Literal["above", "below"]
_KEEPS = 1.01  # LT_i's and FLT's largest ratio in Table 1 is 1.001, LT's is 1.058

_of_paper = Paper(
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


@_of_paper(
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
    @_of_paper(
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

    @_of_paper(name, sentence, figure, quantity, 1.0, side, published)
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
    @_of_paper(
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
