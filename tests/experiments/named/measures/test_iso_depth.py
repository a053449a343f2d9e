"""The iso-depth law in a named experiment: its result with the law, and its pictures as numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from looplab.conf.mistakes import ConfigError
from looplab.experiments.iso_depth import run as iso_depth_run
from looplab.experiments.iso_depth.run import Measured, TrainAndMeasure
from looplab.experiments.measuring import Measurement, Request
from looplab.experiments.named.measures.iso_depth import measure, settings_of
from looplab.experiments.scaling_law.problem import Law
from looplab.experiments.scaling_law.runs import Row, table_of
from looplab.training.jobs import Outcome, Workers
from tests.experiments.named.measures.checks import check_panels

TINY = {
    "r": [1, 2], "widths": 8, "steps": [2, 3], "depth": 2, "dims": 2, "points": 4, "batch_size": 4,
    "resamples": 20,
}  # fmt: skip
GRID = {"resamples": 20, "r": [1, 2, 4], "widths": [16, 48], "steps": [500, 1000, 4000]}
LAW = Law(E=0.25, A=4.0, B=20.0, alpha=0.4, beta=0.5, phi=0.4)


def asked(folder: Path, entry: Mapping[str, Any], stored_only: bool = False) -> Measurement:
    return measure(Request([entry], (), str(folder), 1, stored_only))


@pytest.mark.slow
def test_trained_runs_without_a_law(tmp_path: Path) -> None:
    nothing = asked(tmp_path, TINY, stored_only=True)
    assert (nothing.results, list(nothing.panels)) == ({}, [])
    assert nothing.missing == ["iso-depth law: not measured yet"]
    assert not list(tmp_path.iterdir())

    found = asked(tmp_path, TINY)
    (line,) = found.missing  # in so few steps nobody leaves the plateau
    assert line.startswith("iso-depth law: no law can be fitted to the 0 runs of 4")
    assert check_panels(found.panels) == ["iso-depth-width-8"]
    result = found.results["iso_depth"]
    assert result["law"] is None
    assert [(row["r"], row["steps"]) for row in result["runs"]] == [(1, 2), (1, 3), (2, 2), (2, 3)]
    assert not any(row["left_plateau"] for row in result["runs"])
    assert asked(tmp_path, TINY, stored_only=True).results == found.results


@pytest.fixture
def by_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is trained, the losses are of a known law; the first run of the grid fails."""

    def run(jobs: Sequence[TrainAndMeasure], workers: Workers) -> list[Outcome]:
        outcomes = []
        for job in jobs:
            config = job.config
            r, width = config.loops.b, config.model.n_embd
            prompts = config.training.steps * config.training.batch_size
            row = Row(job.name, 24 * width**2, 96 * width**2 // r, r, prompts, 1.0, ())
            loss = float(LAW.loss(table_of([row]))[0])
            outcomes.append(Outcome(Measured(replace(row, loss=loss), LAW.E, 1.0)))
        return [Outcome(failure="a full disk"), *outcomes[1:]]

    monkeypatch.setattr(iso_depth_run, "run_jobs", run)
    monkeypatch.setattr(iso_depth_run, "save_panels", lambda *_, **__: [])


@pytest.mark.usefixtures("by_law")
def test_the_law_and_what_it_was_fitted_to(tmp_path: Path) -> None:
    found = asked(tmp_path, GRID)
    (line,) = found.missing
    assert line.startswith("iso-depth law: 1 of 18 runs failed")
    result = found.results["iso_depth"]
    fitted = result["law"]["fits"]["free"]["law"]
    assert fitted["phi"] == pytest.approx(LAW.phi, abs=1e-3)
    assert len(result["runs"]) == 17
    names = check_panels(found.panels)
    assert names[:2] == ["iso-depth-width-16", "iso-depth-width-48"]
    assert names[2:] == [
        "loss-r-1", "loss-r-2", "loss-r-4", "residuals", "scaling_law-by-phi", "scaling_law-r2",
    ]  # fmt: skip
    by_width = found.panels[0]
    assert by_width.x == [500, 1000, 4000]
    assert [curve.number for curve in by_width.curves] == [1, 2, 4]
    assert by_width.levels["least possible"] == LAW.E


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ([], "settings must be one for the law, got 0"),
        ([{"width": 8}], "width is not a setting; did you mean 'widths'"),
        ([{"jobs": 1}], "jobs is not for an experiment's file"),
        ([{"r": [3]}], "r must divide depth=8, got 3"),
    ],
)
def test_a_mistake_in_a_file_is_one_line(
    settings: list[dict[str, Any]], said: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=said):
        settings_of(Request(settings, (), str(tmp_path), 1))
