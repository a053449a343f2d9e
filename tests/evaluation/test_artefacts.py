"""Evaluations of one run stand beside each other and are of today's code; what was altered is
computed again."""

import json
import shlex
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from looplab.evaluation.evaluator import called_by_name
from looplab.main import main
from looplab.probing.__main__ import main as probing
from looplab.show.evaluate import evaluate
from looplab.tasks import SHIFTS, register_shift
from looplab.tasks.shift import ScaledInputs
from looplab.training import Run
from looplab.training.run_folder.sources import measured_by
from tests.conftest import batches_of, times_of
from tests.evaluation.test_evaluate import BASELINES, SETTINGS

pytestmark = pytest.mark.usefixtures("undrawn")


def test_the_evaluation_asked_for_last_is_shown(tiny_run: Run) -> None:
    """Shifted inputs, then other solvers, of other prompts: each is found when it is asked for
    again, and with its command."""
    shifted = evaluate(tiny_run, replace(SETTINGS, shifts=("noise",)))
    solved = evaluate(tiny_run, replace(SETTINGS, baselines=("averaging",), max_loops=20, seed=1))
    shown = json.loads((tiny_run.path / "evaluation.json").read_text())
    assert shown["by_loop"] == solved["by_loop"]
    assert shown["shifts"] == {}
    assert "figures/error_by_loop.png" in shown["files"]
    assert "figures/shifts.png" not in shown["files"]  # the file stays: it may be in a paper
    saved = np.load(tiny_run.path / "evaluation.npz")
    assert saved["by_loop"].shape == (64, 20)
    assert "lasso" not in saved
    again = evaluate(tiny_run, replace(SETTINGS, shifts=("noise",)))
    assert again == shifted
    assert (tiny_run.path / "figures" / "shifts.png").exists()
    assert main(shlex.split(solved["command"])[2:]) == 0
    assert json.loads((tiny_run.path / "evaluation.json").read_text())["key"] == solved["key"]


def test_a_shift_of_ones_own_that_is_registered_anew_is_measured_anew(
    tiny_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With another number; the code of its class counts, too."""
    monkeypatch.setitem(SHIFTS, "own", SHIFTS["noise"])
    names: Any = ("own",)
    settings = replace(SETTINGS, shifts=names)
    errors = []
    for factor in (2, 3):
        register_shift("own", ScaledInputs("scaled", factor))
        errors.append(evaluate(tiny_run, settings)["shifts"]["own"]["model"])
    assert errors[0] != errors[1]
    code = measured_by(*called_by_name(tiny_run.task, settings))
    monkeypatch.setattr(ScaledInputs, "__module__", __name__)  # as if it were defined here
    assert measured_by(*called_by_name(tiny_run.task, settings)).keys() > code.keys()


@pytest.mark.parametrize(
    "name",
    ["evaluation.json", "evaluation.npz", "figures/error_by_loop.csv", "evaluations/{key}.npz"],
)
def test_what_was_altered_is_made_anew(
    name: str, tiny_run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    """One digit, the first after a point, is another one, and everything else is as it was."""
    first = evaluate(tiny_run, SETTINGS)
    path = tiny_run.path / name.format(key=first["key"])
    before = path.read_bytes()
    content = bytearray(before)
    point = b"" if path.suffix == ".npz" else b"."  # a number's last digit may be beyond its bits
    half = range(1, len(content) // 2)
    place = max(i for i in half if chr(content[i]).isdigit() and content[:i].endswith(point))
    content[place] ^= 1
    path.write_bytes(content)
    capsys.readouterr()
    assert evaluate(tiny_run, SETTINGS) == first
    assert "altered" in capsys.readouterr().out
    if path.suffix != ".npz":  # which holds the time
        assert path.read_bytes() == before
    assert evaluate(tiny_run, SETTINGS) == first
    assert "altered" not in capsys.readouterr().out


def test_edited_code_is_measured_anew(
    tiny_run: Run, edit: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the task, the model or a solver, with a line; what is of other code alone is found."""
    evaluate(tiny_run, SETTINGS)
    everything = {"model", "lasso", "lasso-choice"} | BASELINES
    for edited, wanted in (
        ("evaluation/baselines/lasso.py", {"lasso", "lasso-choice"}),
        ("show/style.py", set()),
        ("models/loops/loop.py", everything),
        ("tasks/linear.py", everything),
        ("openml_eval/scoring.py", set()),
    ):
        known = set((tiny_run.path / "cache").iterdir())
        edit(edited)
        result = evaluate(tiny_run, SETTINGS)
        new = set((tiny_run.path / "cache").iterdir()) - known
        assert {path.stem.rpartition("-")[0] for path in new} == wanted, edited
        said = "was made by other code: made again; it took" in capsys.readouterr().out
        assert said == bool(wanted), edited
        trained = edited.startswith(("models", "tasks"))
        told = [line for line in result["remarks"] if "other code" in line]
        assert told == (
            [f"trained by other code: {edited} differs now (again=true trains again)"]
            if trained
            else []
        )


def test_a_run_in_a_folder_that_cannot_be_written_in_is_measured_all_the_same(
    tiny_run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By command and from Python; what its owner evaluated is found there. Root may write in every
    folder, so that a trial to write fails for it by the test's own doing."""
    known = evaluate(tiny_run, SETTINGS)
    words = [f"run={tiny_run.path}", "evaluation.seed=5", "evaluation.baselines=[averaging]"]
    probes = ["steps=5", "prompts=8", "batch_size=8", "control=false"]
    before = times_of(tiny_run.path, "**/*")
    denied = [tiny_run.path, *(path for path in before if path.is_dir())]
    temporary = tempfile.TemporaryFile

    def tried(dir: Path) -> Any:
        if dir in denied:
            raise PermissionError
        return temporary(dir=dir)

    monkeypatch.setattr(tempfile, "TemporaryFile", tried)
    for folder in denied:
        folder.chmod(0o555)
    try:
        with batches_of(tiny_run.model, most=0):
            assert evaluate(tiny_run, SETTINGS) == known
        other = evaluate(tiny_run, SETTINGS, seed=5, baselines=("averaging",))
        capsys.readouterr()
        assert main(["action=evaluate", *words]) == 0
        out = capsys.readouterr().out
        assert f"{tiny_run.path} cannot be written in: nothing new is kept; run=COPY" in out
        assert f"{other['by_examples']['averaging']['mean'][-1]:.3g}" in out
        assert "evaluation.json" not in out
        assert probing([words[0], *probes]) == 0
        assert "probing.json" not in capsys.readouterr().out
    finally:
        for folder in denied:
            folder.chmod(0o755)
    assert times_of(tiny_run.path, "**/*") == before
