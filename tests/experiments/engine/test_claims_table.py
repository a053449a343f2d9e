"""The table of all claims: each once, under its paper."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, cast

import pytest

from looplab.evaluation.tables import Table
from looplab.experiments.claims import Verdict
from looplab.experiments.command import main
from looplab.experiments.definition import load
from looplab.experiments.engine import claims_parts, count_text
from looplab.experiments.settings import ExperimentSettings


def verdict(claim: str, name: str) -> Verdict:
    measured = name != "not measured"
    return cast(Verdict, {
        "claim": claim, "sentence": f"About {claim}.", "quantity": "a ratio", "published": "",
        "mean": 1.0 if measured else None, "low": 0.9, "high": 1.1, "line": 1.5, "seeds": 2,
        "holds_if": "below", "verdict": name,
    })  # fmt: skip


def result(name: str, source: str, *verdicts: Verdict) -> dict[str, Any]:
    return {"experiment": name, "source": source, "verdicts": list(verdicts)}


def test_each_claim_stands_once_under_its_paper() -> None:
    count, *parts = claims_parts([
        result("fig01", "arXiv 1, Figure 1", verdict("a", "holds"), verdict("b", "fails")),
        result("other", "arXiv 2", verdict("c", "not measured")),
        result("fig02", "arXiv 1, Figure 2", verdict("a", "holds"), verdict("d", "holds")),
    ])  # fmt: skip
    assert count == "4 claims: 2 hold, 1 fails, 1 is not measured"
    assert [part for part in parts if isinstance(part, str) and part] == [
        "arXiv 1: 3 claims: 2 hold, 1 fails",
        "arXiv 2: 1 claim: 1 is not measured",
    ]
    first, second = (part for part in parts if isinstance(part, Table))
    assert [row[0] for row in first.rows] == ["fig01", "fig01", "fig02"]
    assert first.rows[0][4:] == ["1 (0.9 to 1.1)", "< 1.5", "2", "holds"]
    assert second.rows[0][4:] == ["–", "< 1.5", "–", "not measured"]


def test_no_claims() -> None:
    assert count_text([]) == "0 claims: none judged"


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
