"""`python -m openml_eval`: trained on the others, tested on one; failures apart."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from looplab import training
from looplab.conf.mistakes import RunError
from looplab.openml_eval.__main__ import main
from looplab.openml_eval.estimators import LoopedClassifier
from looplab.openml_eval.scoring import split_contexts
from looplab.openml_eval.tables import read_table
from tests.openml_eval.conftest import words, write_tables


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tables(tmp_path_factory.mktemp("data"))


def result_of(runs: Path) -> dict[str, Any]:
    (path,) = runs.glob("openml-????????/openml.json")
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def test_one_failure_is_named_and_the_rest_goes_on(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = training.train

    def train(config: Any) -> Any:
        if config.task.settings["held_out"] == "second":
            raise RunError("the disk is full")
        return trained(config)

    monkeypatch.setattr("looplab.openml_eval.leave_one_out.train", train)
    assert main(words(data, tmp_path, "model=looped", "jobs=1", "draws=1")) == 1
    said = capsys.readouterr().out
    assert "failed: 8 second, looped, seed 0: the disk is full" in said
    result = result_of(tmp_path)
    assert [bool(entry["models"]) for entry in result["tables"]] == [True, False, True]
    assert "looped beats the larger class on" in said


def test_a_run_is_scored_as_it_is(
    data: Path, tmp_path: Path, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By its estimator, whose answers are counted; nothing is trained."""
    run = f"run={runs / 'classifier'}"
    given = words(data, tmp_path, run, "held_out=third", "draws=1", "n_orders=2", "jobs=1")
    assert main(given) == 0
    assert [path.name[:7] for path in tmp_path.iterdir()] in (["openml-"] * 2,)
    (entry,) = result_of(tmp_path)["tables"]
    (found,) = entry["models"].values()
    table, right = read_table(data, "third"), 0
    for rows, context in zip(*split_contexts(70, 8, 3, seed=0), strict=True):
        model = LoopedClassifier(runs / "classifier", n_orders=2)
        model.fit(table.xs[context], table.ys[context])
        right += (model.predict(table.xs[rows]) == table.ys[rows]).sum()
    assert found["accuracy"]["mean"] == pytest.approx(right / 70)
    assert found["accuracy"]["low"] < found["accuracy"]["mean"] < found["accuracy"]["high"]
    assert "by LoopedClassifier with n_orders=2" in capsys.readouterr().out
    # Of another table, or with other contexts, the result has a folder of its own.
    assert main([*given[:-4], "held_out=second", *given[-3:]]) == 0
    assert len([*tmp_path.glob("openml-*/openml.json")]) == 2


def test_the_references_protocol_stands_beside_table_2(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = words(data, tmp_path, "held_out=720", "protocol=reference", "model=looped", "jobs=1")
    given = [word for word in given if not word.startswith("task.points")] + ["task.points=5"]
    assert main(given) == 0
    (entry,) = result_of(tmp_path)["tables"]
    found = entry["models"]["looped"]
    (path,) = tmp_path.glob("tables-*/cache/tables-*.npz")
    with np.load(path) as file:
        accuracies = file["scores"] / file["scores"][:, 2:]
    assert accuracies.shape == (5, 3)
    assert found["accuracy"] == {
        "mean": pytest.approx(accuracies[:, 0].mean()),
        "std": pytest.approx(accuracies[:, 0].std()),
    }
    said = capsys.readouterr().out
    assert f"{found['accuracy']['mean']:.3f} ± {found['accuracy']['std']:.3f}" in said
    assert "0.662" in said


@pytest.mark.parametrize(
    ("word", "code", "said"),
    [
        ("held_out=99", 2, "held_out cannot be 99: the tables that take part are 720, 8, third"),
        ("loops.T=3", 2, "loops.T has no meaning with model=standard"),
        ("task.dims=1", 1, "abalone has 2 features, more than the 1 that the model reads: task"),
        ("run=REGRESSOR", 2, "is a regressor, and a classifier of two classes is needed"),
        ("tables=[720,725]", 1, "action=fetch tables=725 data_dir="),
        ("held_out=[720,abalone]", 2, "held_out holds 720 twice"),
        ("acton=fetch", 2, "acton is not a setting; did you mean 'action'?"),
    ],
)
def test_a_mistake_is_one_line_before_anything_is_written(
    word: str,
    code: int,
    said: str,
    data: Path,
    tmp_path: Path,
    runs: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    word = word.replace("REGRESSOR", str(runs / "regressor"))
    key = word.partition("=")[0]
    given = [each for each in words(data, tmp_path) if each.partition("=")[0] != key]
    assert main([*given, word]) == code
    line = capsys.readouterr().err
    assert line.startswith("openml_eval: ")
    assert said in line
    assert line.count("\n") == 1
    assert not [*tmp_path.iterdir()]
