"""Mistakes in the command end in one line, before anything is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from looplab.openml_eval.__main__ import main
from tests.openml_eval.leave_out import words, write_tables


@pytest.mark.parametrize(
    ("word", "code", "said"),
    [
        ("held_out=99", 2, "held_out cannot be 99: the tables that take part are 720, 8, third"),
        ("held_out=[8,8]", 2, "held_out holds 8 twice"),
        ("held_out=[all,8]", 2, "held_out cannot be 'all': the tables that take part are 720"),
        ("model=lopped", 2, "model cannot be 'lopped'; did you mean 'looped'?"),
        ("model=[]", 2, "model must hold at least one"),
        ("jobs=0", 2, "jobs must be at least 1, got 0"),
        ("contexts=0", 2, "contexts must be at least 1, got 0"),
        ("seeds=[0,0]", 2, "seeds holds 0 twice"),
        ("seeds=-1", 2, "seeds must be at least 0, got -1"),
        ("protocol=correct", 2, "protocol cannot be 'correct'; did you mean 'corrected'?"),
        ("task=linear", 2, "task is tables here"),
        ("task.held_out=720", 2, "task.held_out is set by held_out="),
        ("training.step=3", 2, "training.step is not a setting; did you mean 'training.steps'?"),
        ("loops.T=3", 2, "loops.T has no meaning with model=standard"),
        ("device=abacus", 2, "device cannot be 'abacus' on this machine"),
        ("task.dims=1", 1, "abalone has 2 features, more than the 1 that the model reads: task"),
        ("tables=[720,720]", 2, "tables holds 720 twice"),
        ("tables=[720]", 2, "tables must hold at least two: one is held out of training"),
        ("tables=[720,725]", 1, "action=fetch tables=725 data_dir="),
        (
            "tables=[5,720,6]",
            1,
            "holds no table 5, 6; `python -m openml_eval action=",
        ),
        ("tables=[720,mine]", 1, "holds no table mine; `python -m openml_eval action=fetch"),
        ("acton=fetch", 2, "acton is not a setting; did you mean 'action'?"),
        ("held_out", 2, "'held_out' is not of the form key=value"),
    ],
)
def test_a_mistake_is_one_line(
    word: str, code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, runs = write_tables(tmp_path / "data"), tmp_path / "runs"
    key = word.partition("=")[0]
    given = [each for each in words(data, runs) if each.partition("=")[0] != key]
    assert main([*given, *word.split()]) == code
    line = capsys.readouterr().err
    assert line.startswith("openml_eval: ")
    assert said in line
    assert line.count("\n") == 1
    assert not runs.exists()
