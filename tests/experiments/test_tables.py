"""Held-out tables in a named experiment: accuracies by table."""

from pathlib import Path
from typing import Any

import pytest

from looplab.evaluation.statistics import over_seeds
from looplab.experiments.evidence import Evidence
from looplab.experiments.question import Request
from looplab.experiments.tables import answer, looped_less_standard
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


def _table(difference: float) -> dict[str, Any]:
    """A table on which looped is so much more accurate, each accuracy known to ± .02."""
    models = {}
    for name, accuracy in (("standard", 0.5), ("looped", 0.5 + difference)):
        band = {"mean": accuracy, "low": accuracy - 0.02, "high": accuracy + 0.02}
        models[name] = {"accuracy": band, "runs": [{"seed": 0, "step": 10}]}
    return {"models": models}


def test_the_spread_of_tables_is_counted_once() -> None:
    """It has the draws' errors in it; of a single table these are all that is known."""
    differences = [0.01, 0.02, 0.05]
    evidence = Evidence(results={"openml": {"tables": [_table(each) for each in differences]}})
    several = looped_less_standard(evidence)
    assert several[:3] == pytest.approx(over_seeds(differences)[:3])
    single = looped_less_standard(Evidence(results={"openml": {"tables": [_table(0.05)]}}))
    half = 2**0.5 * 0.02
    assert single[:3] == pytest.approx((0.05, 0.05 - half, 0.05 + half))
