"""The numbers of an experiment's pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from looplab.experiments.claims import Measured
from looplab.experiments.definition import PanelSpec, load, members_of
from looplab.experiments.standard_panels import panels


def runs(tiny: Path) -> list[Measured]:
    """Made-up errors of the tiny experiment's runs: 8 prompts, 4 points, 5 loops."""
    random, found = np.random.default_rng(0), []
    for member in members_of(load(str(tiny)), "small"):
        loops = 5 if member.config.model.family == "looped" else 1
        arrays = {
            "model": random.random((8, 4)),
            "model_at_b": random.random((8, 4)),
            "by_loop": random.random((8, loops)),
            "least_squares": np.full((8, 4), 0.25),
            "noise/model": random.random((8, 4)),
            "noise/least_squares": np.full((8, 4), 0.75),
        }
        labels = {"": {"least_squares": "optimal"}, "noise": {"least_squares": "least squares"}}
        found.append(Measured(member.label, member.config, 4, arrays, labels))
    return found


def test_a_curve_is_the_mean_over_seeds_and_prompts(tiny: Path) -> None:
    measured = runs(tiny)
    (panel,) = panels([PanelSpec("by_examples")], measured)
    looped = panel.curves[0]
    both = np.stack([run.arrays["model"] for run in measured[:2]])
    np.testing.assert_allclose(np.array(looped.mean, float), both.mean((0, 1)))
    assert looped.label == "looped, b = 2"
    assert looped.b == 2
    low, high = np.array(looped.low, float), np.array(looped.high, float)
    assert (low < both.mean((0, 1))).all()
    assert (high > both.mean((0, 1))).all()


def test_curves_of_texts_are_bits_per_byte_of_the_held_out_part() -> None:
    """By loop and by a setting, each way to connect loops with a style of its own; no level says
    what predicting zero gives."""
    measured = []
    for member in members_of(load("language_fully_looped"), "small"):
        b = member.config.loops.b
        bits = np.linspace(2, 3, 10)[:, None] + b / 100 + np.zeros((10, 3 * b))
        arrays = {"by_loop": np.full((8, 3 * b), 9.0), "held_out": bits}
        measured.append(Measured(member.label, member.config, 600, arrays))
    by_value, by_loop = panels([PanelSpec("by_value", x="loops.b"), PanelSpec("by_loop")], measured)
    assert list(by_value.x) == [1, 3, 6, 12]
    found = {each.label: each for each in by_value.curves}
    assert set(found) == {"LT", "LT_i", "LT_ai", "FLT", "FLT_res"}
    assert {label: each.kind for label, each in found.items()} == {label: label for label in found}
    assert found["LT"].mean == pytest.approx([2.51, 2.53, 2.56, 2.62])
    assert found["FLT"].mean[0] is None
    for each in (by_value, by_loop):
        assert each.y_label == "bits per byte"
        assert not each.levels
        assert not each.log


def test_solvers_stand_beside_the_models_once(tiny: Path) -> None:
    (panel,) = panels([PanelSpec("by_examples")], runs(tiny))
    solvers = [curve for curve in panel.curves if curve.kind == "least_squares"]
    assert [curve.mean for curve in solvers] == [[0.25] * 4]
    assert list(panel.x) == [0, 1, 2, 3]


def test_a_shorter_curve_ends_where_its_model_does(tiny: Path) -> None:
    (panel,) = panels([PanelSpec("by_loop")], runs(tiny))
    standard = panel.curves[-1]
    assert list(panel.x) == [1, 2, 3, 4, 5]
    assert list(standard.mean)[1:] == [None] * 4
    assert standard.b is None


def test_errors_over_a_setting(tiny: Path) -> None:
    measured = runs(tiny)
    (panel,) = panels([PanelSpec("by_value", x="loops.b")], measured[:4])
    assert list(panel.x) == [2, 3]
    curve = panel.curves[0]
    expected = np.stack([run.arrays["model_at_b"][:, -1] for run in measured[:2]]).mean()
    assert curve.mean[0] == pytest.approx(expected)
    assert curve.mean[1] is None  # the other label's value
