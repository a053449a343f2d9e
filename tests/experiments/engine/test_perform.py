"""Experiments carried out, from the command; all leave one table of claims."""

import csv
from pathlib import Path
from typing import Any

import pytest

from looplab.evaluation.verdict import Verdict
from looplab.experiments import engine as perform
from looplab.experiments.command import main
from looplab.experiments.definition import load
from looplab.experiments.engine import claims_parts
from looplab.experiments.settings import ExperimentSettings
from looplab.show.drawing import save_panels
from looplab.show.tables import Table
from looplab.training.run_folder import run as run_module
from looplab.training.run_folder.files import read_record

CLAIMS = "claims: {fig02_stays_beyond_b: fig02, fig03_tied_grows: fig03}"


def result(name: str = "tiny", which: str = "small") -> dict[str, Any]:
    path = Path(f"runs/experiments/{name}-{which}/result.json")
    content = read_record(path, "experiment").content
    assert content is not None
    return content


def times(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_an_experiment_is_trained_judged_and_drawn(
    tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny.write_text(tiny.read_text("utf-8").replace("claims: {}", CLAIMS), encoding="utf-8")
    assert main(["experiment=tiny.yaml", "jobs=1"]) == 0
    found, text = result(), capsys.readouterr().out
    assert [member["state"] for member in found["members"]] == ["finished"] * 6
    assert found["missing"] == []
    stays, tied = found["verdicts"]
    assert stays["seeds"] == 2
    assert stays["verdict"] in ("holds", "fails", "not settled", "not measured")
    assert (tied["verdict"], tied["mean"]) == ("not measured", None)
    assert "no finished run with family = tied" in text
    assert found["command"] == "python run.py experiment=tiny.yaml scale=small"
    for panel in found["panels"]:
        path = Path("runs/experiments/tiny-small/figures") / f"{panel['name']}.csv"
        rows = list(csv.reader(path.read_text("utf-8").splitlines()))
        assert len(rows) == len(panel["x"]) + 1
        assert path.with_suffix(".png").stat().st_size > 1000


@pytest.mark.usefixtures("undrawn")
def test_a_second_time_nothing_is_trained_and_nothing_drawn(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = times(Path("runs"))
    assert main(["experiment=tiny.yaml", "jobs=1"]) == 0
    changed = {path for path, time in times(Path("runs")).items() if before.get(path) != time}
    assert not {path for path in changed if not path.endswith(".lock")}
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "runs/experiments/tiny-small: result.json, figures/"


def test_runs_of_other_code_are_named_in_text_verdict_and_picture(
    trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trained.write_text(trained.read_text("utf-8").replace("claims: {}", CLAIMS), encoding="utf-8")
    words = ["experiment=tiny.yaml", "action=figure", "figures.format=svg"]
    assert main(words) == 0
    assert "other code" not in capsys.readouterr().out
    monkeypatch.setattr(run_module, "changed_code", lambda *_: ["models/model.py"])
    assert main(words) == 0
    text = capsys.readouterr().out
    assert "all: trained by other code" in text
    (stays, _) = result()["verdicts"]
    assert "trained by other code" in stays["note"]
    drawn = next(Path("runs/experiments/tiny-small/figures").glob("*.svg")).read_text("utf-8")
    assert "6 of its 6 trainings have remarks" in drawn


@pytest.mark.usefixtures("undrawn")
def test_an_experiment_that_breaks_does_not_stop_the_others(
    trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trained.with_name("other.yaml").write_text(trained.read_text("utf-8"), encoding="utf-8")

    def breaks(folder: Path, *more: Any) -> list[Path]:
        if folder.parent.name.startswith("other"):
            raise ValueError("no such axis")
        return save_panels(folder, *more)

    monkeypatch.setattr(perform, "save_panels", breaks)
    assert main(["experiment=[other.yaml,tiny.yaml]", "action=figure"]) == 1
    said = capsys.readouterr()
    assert said.err.endswith("run.py: other: no such axis\n")
    assert "runs/experiments/tiny-small: result.json, figures/" in said.out


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
