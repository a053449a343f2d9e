"""Figures of residual scaling in experiments: measured once, found again."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from looplab.experiments import near_init
from looplab.experiments.claims import Measured
from looplab.experiments.measuring import Measurement, Request, measure_runs
from tests.experiments.checks import check_panels

ENTRIES: dict[str, dict[str, Any]] = {
    "toy": {"loops": [1, 3], "seeds": 2},
    "changes": {"loops": [1, 4, 6], "seeds": 2},
}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few steps and few loops."""
    for name, value in (
        ("STEPS", 2), ("COSINE_LOOPS", 3), ("COSINE_LAYERS", 2),
    ):  # fmt: skip
        monkeypatch.setattr(near_init, name, value)


def asked(
    folder: Path, *entries: Mapping[str, Any], runs: Sequence[Measured] = (), stored: bool = False
) -> Measurement:
    return measure_runs("residual_scaling", Request(entries, runs, str(folder), 1, stored))


@pytest.mark.parametrize("figure", ENTRIES)
def test_a_figure_is_measured_once_and_found_again(figure: str, tmp_path: Path) -> None:
    entry = {"figure": figure, **ENTRIES[figure]}
    nothing = asked(tmp_path, entry, stored=True)
    assert (nothing.results, list(nothing.panels)) == ({}, [])
    assert nothing.missing == ("residual_scaling: not measured yet",)
    assert not list(tmp_path.iterdir())

    found = asked(tmp_path, entry)
    assert not found.missing
    assert list(found.results) == ["residual_scaling"]
    check_panels(found.panels)
    again = asked(tmp_path, entry, stored=True)
    assert (again.results, again.panels) == (found.results, found.panels)
