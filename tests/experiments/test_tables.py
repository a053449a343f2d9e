"""Held-out tables in a named experiment: accuracies by table."""

from pathlib import Path
from typing import Any

import pytest

from looplab.experiments.question import Request
from looplab.experiments.tables import answer
from tests.experiments.checks import check_found_again
from tests.openml_eval.conftest import write_tables

ENTRY: dict[str, Any] = {
    "scale": "small", "tables": [720, 8, "third"], "held_out": ["third", 720], "contexts": 3,
    "model": ["looped", "standard"], "task.dims": 3, "task.points": 9, "model.n_embd": 16,
    "model.n_head": 2, "training.steps": 6, "training.batch_size": 4, "training.warmup": 2,
    "evaluation.resamples": 50,
}  # fmt: skip


@pytest.mark.usefixtures("undrawn")
def test_accuracies_by_table(tmp_path: Path) -> None:
    entry = ENTRY | {"data_dir": str(write_tables(tmp_path / "data"))}
    runs = str(tmp_path / "runs")
    found = check_found_again(lambda stored: answer(Request([entry], (), runs, 1, stored)))
    tables = [table["name"] for table in found.results["openml"]["tables"]]
    assert tables == ["third", "abalone"]
    assert [panel.name for panel in found.panels] == ["openml-accuracy"]
