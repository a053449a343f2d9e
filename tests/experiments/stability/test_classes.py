"""Residual scalings and the fully looped paper's loops on four function classes."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from reloop.evaluation.figures import Pictures
from reloop.evaluation.tables import document
from reloop.experiments.stability import regression
from reloop.experiments.stability.classes import class_runs, draw, measure, report
from reloop.experiments.stability.settings import CLASSES, CONNECTED, SCALINGS, StabilitySettings
from reloop.models.loops.connected import CONNECTIVITIES
from reloop.models.residual import RESIDUAL_SCALINGS
from reloop.training.assemble import build_model, build_task


def test_the_names_are_those_of_the_models() -> None:
    assert CONNECTED == CONNECTIVITIES
    assert set(SCALINGS) < set(RESIDUAL_SCALINGS)


@pytest.mark.parametrize("task", CLASSES)
@pytest.mark.parametrize("variant", [*SCALINGS, *CONNECTED])
def test_each_cell_is_trained_as_itself(task: str, variant: str) -> None:
    config = class_runs(StabilitySettings("classes"), task, variant, 4).config
    model = build_model(config, build_task(config))
    assert (config.task.name, config.loops.b, config.loops.T) == (task, 4, 1)
    assert model.residual_scale() == {"sqrt": 0.5, "linear": 0.25}.get(variant, 1.0)
    assert config.model.connectivity == (None if variant in SCALINGS else variant)


def test_every_cell_is_measured_shown_and_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WIDTH", "BATCH"):
        monkeypatch.setattr(regression, name, 8)
    settings = StabilitySettings(
        "classes", loops=(1, 2), seeds=2, steps=6, jobs=1, tasks=("decision_tree", "linear"),
        variants=("none", "FLT_res"), folder=str(tmp_path),
    )  # fmt: skip
    result = measure(settings)
    assert json.loads(json.dumps(result)) == result
    assert list(result["tasks"]) == ["decision_tree", "linear"]
    cells = [
        cell
        for by_variant in result["tasks"].values()
        for by_loops in by_variant.values()
        for cell in by_loops.values()
    ]
    assert len(cells) == 8
    assert all(len(cell["error"]) == len(cell["initial"]) == 2 for cell in cells)
    rows_shown = [line.split() for line in document(report(result)).splitlines()[2:]]
    assert rows_shown[0][:3] == ["task", "variant", "K"]
    assert [row[:3] for row in rows_shown[-2:]] == [["linear", "FLT_res", K] for K in "12"]
    with Pictures(tmp_path) as pictures:
        draw(result, pictures, "classes")
    with open(tmp_path / "classes.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    errors = [error for error in result["tasks"]["linear"]["FLT_res"]["2"]["error"] if error]
    assert float(rows[1]["linear_FLT_res_mean"]) == pytest.approx(sum(errors) / 2)
