"""All experiments leave one table of claims."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from looplab.experiments.command import ExperimentSettings, main
from looplab.experiments.definition import load


@pytest.mark.usefixtures("undrawn")
def test_all_experiments_leave_one_table(
    trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with_claims = trained.read_text("utf-8").replace("claims: []", "claims: [fig03_tied_grows]")
    for name in ("tiny.yaml", "other.yaml"):
        trained.with_name(name).write_text(with_claims, encoding="utf-8")
    both = ["experiment=[tiny.yaml,other.yaml]", "action=figure", "tables.format=csv"]
    assert main(both) == 0
    assert capsys.readouterr().out.strip().endswith("1 claim: 1 is not measured")
    assert not Path("runs/experiments/claims-small.csv").exists()
    two = property(lambda settings: [load("tiny.yaml"), load("other.yaml")])
    monkeypatch.setattr(ExperimentSettings, "experiments", two)
    assert main(["experiment=all", "action=figure", "tables.format=csv"]) == 0
    path = Path("runs/experiments/claims-small.csv")
    assert capsys.readouterr().out.strip().endswith(f"1 is not measured: {path}")
    rows = list(csv.reader(path.read_text("utf-8").splitlines()))
    (row,) = [row for row in rows if row and row[0] == "tiny"]
    assert row[-1] == "not measured"
