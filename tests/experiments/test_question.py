"""Intervals of numbers that a measure finds, of few trainings and of one; what is measured once."""

import math
from pathlib import Path

import numpy as np
import pytest

from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.statistics import Estimate, NotMeasured
from looplab.experiments.question import Request, answer_of, band, estimate, first_at_most
from tests.experiments.checks import check_found_again

_SETTINGS = EvaluationConfig(resamples=200)


def test_a_band_lies_within_the_interval_that_decides() -> None:
    errors = np.random.default_rng(1).lognormal(size=(2, 64, 3))
    drawn = band([errors], _SETTINGS)
    rounding = 1e-12
    for place in range(3):
        found = estimate([errors[..., place]], _SETTINGS, log=True)
        assert found.mean == pytest.approx(drawn.mean[place])
        assert found.low <= drawn.low[place] + rounding
        assert found.high >= drawn.high[place] - rounding


def test_where_a_curve_first_falls_to_a_level() -> None:
    """Between two points by their line, from the first point on, of a single one, and never."""
    curves = np.array([[4.0, 2.0, 1.0], [1.0, 5.0, 0.0], [4.0, 4.0, 4.0]])
    np.testing.assert_allclose(first_at_most(curves, 1.5), [1.5, 0.0, math.nan])
    np.testing.assert_allclose(first_at_most(curves[:, :1], 1.5), [math.nan, 0.0, math.nan])


def test_what_is_kept_of_an_estimate_is_read_back_and_no_number_is_not_measured() -> None:
    found = Estimate(1.5, 1.0, 2.0, 3, note="a note")
    assert found.plain() == {"mean": 1.5, "low": 1.0, "high": 2.0, "seeds": 3, "note": "a note"}
    assert Estimate.read(found.plain()) == found
    for lost in (found._replace(mean=math.nan), found._replace(mean=math.inf)):
        with pytest.raises(NotMeasured, match="not finite"):
            Estimate.read(lost.plain())
    with pytest.raises(NotMeasured, match="a note"):
        Estimate.read(found._replace(low=math.nan).plain())


def test_a_figure_is_measured_once_and_found_again(tmp_path: Path) -> None:
    entry = {"loops": [1, 3], "seeds": 2}
    found = check_found_again(
        lambda stored: answer_of(
            "residual_scaling_toy", Request([entry], (), str(tmp_path), 1, stored)
        )
    )
    assert list(found.results) == ["residual_scaling_toy"]
