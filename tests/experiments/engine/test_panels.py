"""The numbers of an experiment's pictures."""

from pathlib import Path

import numpy as np

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
