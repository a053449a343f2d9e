"""Held-out tables in a named experiment: accuracies by table."""

from pathlib import Path
from typing import Any

import pytest

from looplab.experiments.measuring import Request
from looplab.experiments.tables import measure
from tests.experiments.checks import check_panels
from tests.openml_eval.leave_out import write_tables

ENTRY: dict[str, Any] = {
    "scale": "small", "tables": [720, 8, "third"], "held_out": ["third", 720], "contexts": 3,
    "model": ["looped", "standard"], "task.dims": 3, "task.points": 9, "model.n_embd": 16,
    "model.n_head": 2, "training.steps": 6, "training.batch_size": 4, "training.warmup": 2,
    "evaluation.resamples": 50,
}  # fmt: skip


@pytest.mark.usefixtures("undrawn")
def test_accuracies_by_table(tmp_path: Path) -> None:
    entry = ENTRY | {"data_dir": str(write_tables(tmp_path / "data"))}
    runs = tmp_path / "runs"
    nothing = measure(Request([entry], (), str(runs), 1, stored_only=True))
    assert (nothing.results, nothing.missing) == ({}, ["held-out tables: not measured yet"])
    assert not runs.exists()

    found = measure(Request([entry], (), str(runs), 1))
    assert found.missing == []
    result = found.results["openml"]
    assert [table["name"] for table in result["tables"]] == ["third", "abalone"]
    assert check_panels(found.panels) == ["openml-accuracy"]

    again = measure(Request([entry], (), str(runs), 1, stored_only=True))
    assert (again.results, again.panels) == (found.results, found.panels)
