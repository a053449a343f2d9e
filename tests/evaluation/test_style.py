"""One style for each kind of curve, which readers in grey can tell apart."""

from __future__ import annotations

import math
from itertools import combinations, pairwise
from typing import Any

import pytest

from looplab.conf.schema import Config
from looplab.evaluation.style import kind_of, style_of_number, styles_of
from looplab.tasks import Task
from looplab.tasks.linear import Linear, SparseLinear
from looplab.tasks.nonlinear import DecisionTree

FAMILIES = ("looped", "standard", "tied")
VARIANTS = ("LT", "LT_i", "LT_ai", "FLT", "FLT_res")


def style_of(kind: str) -> dict[str, Any]:
    """The style of the only curve of a picture."""
    return styles_of([kind])[0]


def lightness(color: str) -> float:
    """How light "#RRGGBB" is in grey, 0 to 1 (CIE L*, over 100)."""
    channels = [int(color[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    luminance = sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
    return 1.16 * math.cbrt(luminance) - 0.16 if luminance > 0.008856 else 9.033 * luminance


def differ_in_grey(first: str, second: str) -> bool:
    """By the dash, or by a fifth of the way from black to white."""
    one, other = style_of(first), style_of(second)
    lights = [lightness(style["color"]) for style in (one, other)]
    return one["linestyle"] != other["linestyle"] or abs(lights[0] - lights[1]) >= 0.2


@pytest.mark.parametrize("task", [Linear, SparseLinear, DecisionTree])
def test_what_a_task_draws_together_can_be_told_apart_in_grey(task: type[Task]) -> None:
    for pair in combinations((*FAMILIES, *task.baselines, "bayes"), 2):
        assert differ_in_grey(*pair), pair


def test_further_curves_of_a_kind_keep_its_colour() -> None:
    styles = styles_of(["looped", "lasso", "looped", "looped", "looped"])
    assert styles[0] == style_of("looped")
    assert styles[1] == style_of("lasso")
    assert {style["color"] for style in (styles[0], *styles[2:])} == {styles[0]["color"]}
    assert len({str(style) for style in styles}) == 5


def test_a_name_from_outside_has_a_style_of_its_own_that_stays() -> None:
    assert style_of("running_mean") == style_of("running_mean")
    assert style_of("running_mean") != style_of("somebody_elses")


def test_more_loops_are_darker_in_every_picture() -> None:
    lights = [lightness(style_of_number(loops)["color"]) for loops in (0, 1, 2, 4, 8, 16, 32, 64)]
    assert lights == sorted(lights, reverse=True)
    assert all(a - b > 0.03 for a, b in pairwise(lights))
    assert style_of_number(1000) == style_of_number(64)


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ((), "looped"),
        (("model=standard",), "standard"),
        (("model=tied",), "tied"),
        (("model=FLT",), "FLT"),
        (("model=LT_i",), "LT_i"),
        (("model=unnormed",), "unnormed"),
        (("model=recurrent",), "recurrent"),
        (("model.lanes=2", "model.injection=none", "loops.grad_loops=all"), "lanes"),
    ],
)
def test_a_models_kind(words: tuple[str, ...], kind: str) -> None:
    assert kind_of(Config.of("task=linear", *words).model) == kind
