"""Evaluations of one run stand beside each other, are of today's code, and say what is unfinished;
what was altered is computed again."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from reloop.conf.mistakes import HeldElsewhere
from reloop.conf.schema import GrowthConfig
from reloop.evaluation import compare, evaluate, load_run
from reloop.evaluation.report import comparison_table, report
from reloop.evaluation.results import by_solver
from reloop.training import Run, train
from reloop.training.run_folder.run import RunFolder
from tests.evaluation.test_evaluate import BASELINES, SETTINGS

pytestmark = pytest.mark.usefixtures("undrawn")


def test_evaluations_accumulate(tiny_run: Run) -> None:
    """Shifted inputs, then other loops, then other solvers: all of it is still there, each curve as
    it was measured; asked for again, each is found."""
    shifted = evaluate(tiny_run, replace(SETTINGS, shifts=("noise",)))
    halting = evaluate(tiny_run, replace(SETTINGS, loops="auto", max_loops=9))
    solved = evaluate(tiny_run, replace(SETTINGS, baselines=("averaging",), max_loops=20))
    shown = json.loads((tiny_run.path / "evaluation.json").read_text())
    assert len(shown["evaluations"]) == 3
    assert shown["shifts"]["noise"]["model"] == shifted["shifts"]["noise"]["model"]
    (reading,) = shown["by_examples"]["also_read"].values()
    assert reading == halting["by_examples"]["model"]
    assert shown["by_examples"]["lasso"] == by_solver(shifted["by_examples"])["lasso"]
    assert shown["by_loop"] == solved["by_loop"]
    assert shown["above_optimal"]["model"] == shifted["above_optimal"]["model"]
    names = {path.stem for path in (tiny_run.path / "figures").iterdir()}
    assert {"shifts", "above_optimal", "error_by_examples"} <= names
    columns = (tiny_run.path / "figures" / "error_by_examples.csv").read_text().splitlines()[0]
    assert "model_early_exit_on_its_state_0_015_by_loop_4" in columns
    assert "lasso_mean" in columns
    saved = np.load(tiny_run.path / "evaluation.npz")
    assert {"noise/model", "lasso", "averaging"} <= set(saved)
    assert saved["by_loop"].shape == (64, 20)
    assert evaluate(tiny_run, replace(SETTINGS, shifts=("noise",))) == shifted


def test_evaluations_of_other_prompts_are_kept_apart(tiny_run: Run) -> None:
    first = evaluate(tiny_run, replace(SETTINGS, shifts=("noise",)))
    evaluate(tiny_run, replace(SETTINGS, seed=1))
    shown = json.loads((tiny_run.path / "evaluation.json").read_text())
    assert shown["shifts"] == {}
    assert [each["settings"]["seed"] for each in shown["evaluations"]] == [SETTINGS.seed, 1]
    saved = np.load(tiny_run.path / "evaluation.npz")
    assert not [name for name in saved if name.startswith("noise")]
    longer = evaluate(tiny_run, replace(SETTINGS, seed=2, max_loops=20))
    evaluate(tiny_run, replace(SETTINGS, seed=3, baselines=("averaging",)))
    saved = np.load(tiny_run.path / "evaluation.npz")
    assert saved["by_loop"].shape[1] < len(longer["by_loop"]["loop"])
    assert "lasso" not in saved
    assert not (tiny_run.path / "figures" / "shifts.png").exists()
    assert evaluate(tiny_run, replace(SETTINGS, shifts=("noise",))) == first
    assert (tiny_run.path / "figures" / "shifts.png").exists()


@pytest.mark.parametrize(
    "name",
    ["evaluation.json", "evaluation.npz", "figures/error_by_loop.csv", "evaluations/{key}.npz"],
)
def test_what_was_altered_is_made_anew(
    name: str, tiny_run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    """One digit is another one, and everything else is as it was."""
    first = evaluate(tiny_run, SETTINGS)
    path = tiny_run.path / name.format(key=first["key"])
    before = path.read_bytes()
    content = bytearray(before)
    place = max(i for i, byte in enumerate(content[: len(content) // 2]) if chr(byte).isdigit())
    content[place] ^= 1
    path.write_bytes(content)
    capsys.readouterr()
    assert evaluate(tiny_run, SETTINGS) == first
    assert "altered" in capsys.readouterr().out
    if path.suffix != ".npz":  # which holds the time
        assert path.read_bytes() == before
    assert evaluate(tiny_run, SETTINGS) == first
    assert "altered" not in capsys.readouterr().out


def test_anothers_evaluation_is_recognised(tiny_run: Run) -> None:
    """Put in place of the run's own, checksum and all."""
    first = evaluate(tiny_run, SETTINGS)
    other = evaluate(tiny_run, replace(SETTINGS, seed=1))
    folder = tiny_run.path / "evaluations"
    for kind in (".json", ".npz"):
        theirs = folder / f"{other['key']}{kind}"
        (folder / f"{first['key']}{kind}").write_bytes(theirs.read_bytes())
    assert evaluate(tiny_run, SETTINGS) == first


def test_edited_code_is_measured_anew(tiny_run: Run, edit: Callable[[str], None]) -> None:
    """Of the task, the model or a solver; what is of other code alone is found."""
    evaluate(tiny_run, SETTINGS)
    everything = {"model", "lasso", "lasso-choice"} | BASELINES
    for edited, wanted in (
        ("evaluation/baselines/lasso.py", everything),
        ("models/loops/loop.py", everything),
        ("tasks/linear.py", everything),
        ("openml_eval/jobs.py", set()),
    ):
        known = set((tiny_run.path / "cache").iterdir())
        edit(edited)
        result = evaluate(tiny_run, SETTINGS)
        new = set((tiny_run.path / "cache").iterdir()) - known
        assert {path.stem.rpartition("-")[0] for path in new} == wanted, edited
        trained = edited.startswith(("models", "tasks"))
        told = [line for line in result["remarks"] if "other code" in line]
        assert told == (
            [f"trained by other code: {edited} differs now (again=true trains again)"]
            if trained
            else []
        )


def test_a_run_is_evaluated_while_it_is_trained(tiny_run: Run) -> None:
    """Its last checkpoint is; the training's lock is another one."""
    folder = RunFolder(tiny_run.path)
    with folder.lock():
        result = evaluate(load_run(tiny_run.path), SETTINGS)
    assert result["step"] == 40
    with folder.lock("evaluation"), pytest.raises(HeldElsewhere, match=str(tiny_run.path)):
        evaluate(tiny_run, replace(SETTINGS, seed=1))


def test_an_unfinished_run_is_marked_wherever_it_is_shown(tiny_run: Run, tmp_path: Path) -> None:
    growth = GrowthConfig(start=2, inc=1, intervals=(15,))
    config = tiny_run.config
    longer = replace(
        config,
        curriculum=replace(config.curriculum, dims=GrowthConfig(start=2), loops=growth),
        training=replace(config.training, steps=20),
    )
    run = train(longer)
    told = "curriculum unfinished: dims 2 of 3, loops 3 of 4"
    result = evaluate(run, SETTINGS)
    assert result["remarks"] == [told]
    assert json.loads((run.path / "evaluation.json").read_text())["remarks"] == [told]
    assert report(result).startswith(told)
    compared = compare([tiny_run, run], SETTINGS, tmp_path / "compared")
    assert told in comparison_table(compared)
