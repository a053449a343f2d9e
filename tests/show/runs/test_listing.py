"""`action=list`: grids, and the rows and states of runs."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from looplab import runs_table
from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.run_sets import BEGUN
from looplab.evaluation.runs_table import rows_of
from looplab.main import main
from looplab.show.evaluate import evaluate
from looplab.training import train
from looplab.training.run_folder.files import read_record, write_record
from looplab.training.run_folder.run import RunFolder
from looplab.training.run_folder.status import holding
from tests.conftest import tiny_config

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sparse runs, of which the first is evaluated, and a linear one of more steps in a folder
    of its own."""
    path = tmp_path_factory.mktemp("listed")
    config = tiny_config(path)
    first = train(config)
    evaluate(first, EvaluationConfig(prompts=32, resamples=20, batch_size=32, baselines=()))
    train(replace(config, seed=1))
    linear = replace(config.task, name="linear", settings={})
    more = replace(config.training, steps=50)
    train(replace(config, task=linear, training=more, folder=str(path / "more")))
    return path


def listed(folder: Path, capsys: Capture, *words: str) -> list[str]:
    assert main(["action=list", f"folder={folder}", *words]) == 0
    return capsys.readouterr().out.splitlines()


def test_a_row_says_what_a_run_is_and_how_far(folder: Path, capsys: Capture) -> None:
    evaluation = next(folder.glob("*/evaluation.json"))
    by_examples = json.loads(evaluation.read_text(encoding="utf-8"))["by_examples"]
    error = by_examples["model_at_b"]["mean"][-1]
    title, head, *rows, empty, count, note, deletes = listed(folder, capsys)
    assert title == "runs of no grid"
    assert head.split() == ["run", "state", "step", "error", "age", "folder"]
    assert (empty, count) == ("", "3 runs: 3 finished")
    (row,) = (row for row in rows if row.endswith(f" {evaluation.parent}"))
    assert row.startswith("sparse linear, 40 steps, seed 0  finished  40/40 ")
    assert f" {error:.4g}*" in row
    assert note.startswith("* curriculum unfinished")
    (linear,) = (row for row in rows if "/more/linear" in row)
    assert linear.startswith("linear, 50 steps, seed 0 ")
    assert deletes.startswith("rm -r FOLDER deletes a run")


def _begun(folder: Path, *members: dict[str, object]) -> None:
    folder.mkdir()
    about = {"title": "a grid over b", "command": "python run.py -m loops.b=4,8"}
    write_record(folder / "begun.json", BEGUN, {**about, "members": members})


def test_a_grid_that_was_interrupted_shows_its_runs_and_how_it_goes_on(
    folder: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of its runs is finished, the other has no folder; one row a run, also in a pipe."""
    monkeypatch.delenv("COLUMNS", raising=False)
    begun, alone = (path.parent for path in sorted(folder.glob("sparse*/config.yaml")))
    runs = tmp_path / "runs"
    for path in (begun, alone):
        shutil.copytree(path, runs / path.name)
    first = {"run": str(runs / begun.name), "label": "b = 4", "seed": 0}
    _begun(runs / "grid-12", first, {"run": str(runs / "absent"), "label": "b = 8", "seed": 0})
    lines = listed(runs, capsys)
    at = lines.index(f"{runs / 'grid-12'}: a grid over b; 1 of 2 runs finished")
    assert lines[at + 1] == "  goes on by python run.py -m loops.b=4,8"
    assert lines[at + 3].startswith("b = 4, seed 0  finished  40/40 ")
    assert lines[at + 3].endswith(begun.name)
    assert sum(begun.name in line for line in lines) == 1
    assert listed(tmp_path, capsys)[at] == lines[at]  # the runs are in a folder in it
    table = runs_table(runs).set_index("name")
    assert (table.group[begun.name], table.group[alone.name]) == ("grid-12", "")


def test_steps_that_are_no_number_are_the_problem_of_their_row(
    folder: Path, tmp_path: Path, capsys: Capture
) -> None:
    shutil.copytree(next(folder.glob("sparse*/config.yaml")).parent, tmp_path / "copy")
    path = tmp_path / "copy" / "config.yaml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("steps: 40", "steps: many"), encoding="utf-8")
    assert any("training.steps is no number: 'many'" in line for line in listed(tmp_path, capsys))


def test_a_grid_of_which_no_run_was_begun_is_listed(tmp_path: Path, capsys: Capture) -> None:
    _begun(tmp_path / "grid-12", {"run": "runs/absent", "label": "b = 4", "seed": 0})
    title, command, empty, count, _ = listed(tmp_path, capsys)
    assert title == f"{tmp_path / 'grid-12'}: a grid over b; 0 of 1 runs finished"
    assert command.startswith("  goes on by ")
    assert (empty, count) == ("", "0 runs: none was begun")
    assert main(["action=list", f"folder={tmp_path}", "tables.format=csv"]) == 2


def test_states_of_runs_that_are_not_finished(
    folder: Path, tmp_path: Path, capsys: Capture
) -> None:
    copy = shutil.copytree(next(folder.glob("*/evaluation.json")).parent, tmp_path / "copy")
    metrics = copy / "metrics.jsonl"
    lines = metrics.read_bytes().split(b"\n")
    metrics.write_bytes(b"\n".join(lines[:2]) + b'\n{"step": 3')  # a line that is being written
    RunFolder(copy).write_status("running", 20)
    with holding(copy):
        (row,) = rows_of([copy])
        assert row.state == "running"
        assert row.left == pytest.approx(20 / json.loads(lines[1])["steps_per_second"])
    (row,) = rows_of([copy])
    assert (row.state, row.left, row.step) == ("stopped", None, 20)
    (copy / "evaluation.json").write_text("{", encoding="utf-8")
    metrics.unlink()
    (row,) = rows_of([copy])
    assert (row.error, row.loss) == (None, None)
    shutil.rmtree(copy / "checkpoints")
    (copy / "config.yaml").write_text(": [", encoding="utf-8")
    (row,) = rows_of([copy])
    assert "config.yaml cannot be read" in row.remarks
    said = listed(tmp_path, capsys)
    assert said[2].startswith(f"! {copy}")


def test_an_error_of_another_step_is_not_shown_and_one_with_remarks_has_a_star(
    folder: Path, tmp_path: Path, capsys: Capture
) -> None:
    copy = shutil.copytree(next(folder.glob("*/evaluation.json")).parent, tmp_path / "copy")
    path = copy / "evaluation.json"
    evaluation = read_record(path, "evaluation").content
    assert evaluation is not None
    write_record(path, "evaluation", evaluation | {"remarks": ["curriculum unfinished"]})
    (row, *_, note, _) = listed(tmp_path, capsys)[2:]
    (found,) = rows_of([copy])
    assert f"{found.error:.4g}* " in row
    assert note == "* curriculum unfinished"
    write_record(path, "evaluation", evaluation | {"step": 20})
    (found,) = rows_of([copy])
    assert (found.error, found.remarks) == (None, "")


def test_a_table_has_a_row_for_each_run_or_each_of_its_loops(folder: Path) -> None:
    table = runs_table(folder)
    assert table["training.steps"].tolist() == [50, 40, 40]
    assert table.seed.tolist() == [0, 0, 1]
    evaluated = table[table.error.notna()].iloc[0]
    by_loop = runs_table([evaluated.path], errors="by_loop")
    by_k = runs_table(folder, errors="by_examples")
    assert runs_table(folder, errors="by_k").equals(by_k)
    with pytest.raises(ConfigError, match="errors cannot be 'points'; expected one of examples"):
        runs_table(folder, errors="points")
    assert by_loop.loop.tolist() == list(range(1, 13))
    assert by_k["mean"].iloc[-1] == evaluated.error == by_loop["mean"].iloc[3]
    assert (by_k.low <= by_k["mean"]).all()
