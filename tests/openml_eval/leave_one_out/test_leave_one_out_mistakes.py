"""Mistakes in the command end in one line, before anything is written."""

from pathlib import Path

import pytest

from looplab.openml_eval.__main__ import main
from tests.openml_eval.leave_out import words, write_tables


@pytest.mark.parametrize(
    ("word", "code", "said"),
    [
        ("held_out=99", 2, "held_out cannot be 99: the tables that take part are 720, 8, third"),
        ("loops.T=3", 2, "loops.T has no meaning with model=standard"),
        ("task.dims=1", 1, "abalone has 2 features, more than the 1 that the model reads: task"),
        ("run=REGRESSOR", 2, "is a regressor, and a classifier of two classes is needed"),
        ("tables=[720,725]", 1, "action=fetch tables=725 data_dir="),
        ("acton=fetch", 2, "acton is not a setting; did you mean 'action'?"),
    ],
)
def test_a_mistake_is_one_line(
    word: str,
    code: int,
    said: str,
    tmp_path: Path,
    runs: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    data, folder = write_tables(tmp_path / "data"), tmp_path / "runs"
    word = word.replace("REGRESSOR", str(runs / "regressor"))
    key = word.partition("=")[0]
    given = [each for each in words(data, folder) if each.partition("=")[0] != key]
    assert main([*given, *word.split()]) == code
    line = capsys.readouterr().err
    assert line.startswith("openml_eval: ")
    assert said in line
    assert line.count("\n") == 1
    assert not folder.exists()
