"""Figures of residual scaling in experiments: measured once, found again."""

from pathlib import Path

from looplab.experiments.measuring import Measurement, Request, measure_runs
from tests.experiments.checks import check_panels

ENTRY = {"loops": [1, 3], "seeds": 2}


def asked(folder: Path, stored: bool = False) -> Measurement:
    return measure_runs("residual_scaling_toy", Request([ENTRY], (), str(folder), 1, stored))


def test_a_figure_is_measured_once_and_found_again(tmp_path: Path) -> None:
    nothing = asked(tmp_path, stored=True)
    assert (nothing.results, list(nothing.panels)) == ({}, [])
    assert nothing.missing == ("residual_scaling_toy: not measured yet",)
    assert not list(tmp_path.iterdir())

    found = asked(tmp_path)
    assert not found.missing
    assert list(found.results) == ["residual_scaling_toy"]
    check_panels(found.panels)
    again = asked(tmp_path, stored=True)
    assert (again.results, again.panels) == (found.results, found.panels)
