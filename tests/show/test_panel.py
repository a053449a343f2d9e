"""A panel's numbers: as a table, over seeds."""

import numpy as np
import pytest

from looplab.evaluation.statistics import over_seeds
from looplab.show.panel import Curve, Panel, mean_of_seeds


def test_a_frame_has_every_curve_and_its_own_x() -> None:
    panel = Panel(
        "errors", "Errors", "loop", "error", [1, 2, 3],
        [
            Curve(label="a, b", kind="looped", name="a", mean=[0.5, 0.25], low=[0.4, 0.2],
                  high=[0.6, 0.3]),
            Curve(label="own", kind="looped", name="own", mean=[1.0, 2.0, 3.0], x=[4, 5, 6]),
        ],
    )  # fmt: skip
    frame = panel.frame()
    assert list(frame) == ["loop", "a_mean", "a_low", "a_high", "own_x", "own_mean"]
    assert frame["a_mean"].tolist()[:2] == [0.5, 0.25]
    assert np.isnan(frame["a_mean"].tolist()[2])
    assert frame["own_x"].tolist() == [4, 5, 6]


def test_a_mean_is_over_the_seeds_that_have_one() -> None:
    values = [[1.0, None, None, 4.0], [3.0, 5.0, None, float("inf")], [2.0, 7.0, None, None]]
    drawn = Curve.of("a, b", "none", mean_of_seeds(values))
    assert drawn.name == "a-b"
    assert drawn.mean == [2.0, 6.0, None, 4.0]
    assert list(drawn.low)[2:] == [None, None]  # of none and of one seed
    # As claims are judged: Student's interval of two seeds.
    assert (drawn.low[1], drawn.high[1]) == pytest.approx(over_seeds([5.0, 7.0])[1:3])
