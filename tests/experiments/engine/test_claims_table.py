"""All experiments leave one table of claims."""

import csv
from pathlib import Path
from typing import Any

import pytest

from looplab.evaluation.verdict import Verdict
from looplab.experiments.command import main
from looplab.experiments.definition import load
from looplab.experiments.engine import claims_parts
from looplab.experiments.settings import ExperimentSettings
from looplab.show.tables import Table


def _judged(name: str, verdict: str, mean: float | None) -> dict[str, Any]:
    """The result of an experiment that judged one claim."""
    claim = {"claim": "a", "sentence": "A", "quantity": "ratio", "published": "", "mean": mean}
    paper = {"source": "arXiv 1234.56789, Figure 1", "statement": "ABC-1", "says": "A or B."}
    interval = {"low": 0.9, "high": 1.1, "line": 1.5, "holds_if": "below", "seeds": 2}
    line = {"line_set": "after", "verdict": verdict}
    judged = Verdict.read({**claim, **paper, **interval, **line})
    return {"experiment": name, "source": "arXiv 1, Figure 1", "verdicts": [judged]}


def test_a_claim_of_two_experiments_stands_where_it_was_measured() -> None:
    found = [_judged("fig01", "not measured", None), _judged("fig02", "holds", 1.0)]
    for results in (found, found[::-1]):
        count, _, of_paper, table, whole = claims_parts(results)
        assert (count, of_paper) == ("1 claim: 1 holds", "arXiv 1234.56789: 1 claim: 1 holds")
        assert isinstance(table, Table)
        assert isinstance(whole, Table)
        assert [(row[0], row[1], row[-1]) for row in table.rows] == [("fig02", "ABC-1", "holds")]
        assert whole.rows == [["ABC-1", "holds", "1", "A or B."]]


@pytest.mark.usefixtures("undrawn")
def test_all_experiments_leave_one_table(
    trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    claims = "claims: {fig03_tied_grows: fig03}"
    with_claims = trained.read_text("utf-8").replace("claims: {}", claims)
    for name in ("tiny.yaml", "other.yaml"):
        trained.with_name(name).write_text(with_claims, encoding="utf-8")
    two = property(lambda settings: [load("tiny.yaml"), load("other.yaml")])
    monkeypatch.setattr(ExperimentSettings, "experiments", two)
    assert main(["experiment=all", "action=figure", "tables.format=csv"]) == 0
    path = Path("runs/experiments/claims-small.csv")
    assert capsys.readouterr().out.strip().endswith(f"1 is not measured: {path}")
    rows = list(csv.reader(path.read_text("utf-8").splitlines()))
    (row,) = [row for row in rows if row and row[0] == "tiny"]
    assert row[-1] == "not measured"
