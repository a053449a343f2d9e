"""A search in one process: what it finds, repeats, prunes and shows."""

from __future__ import annotations

import math
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from reloop import main as run
from reloop.experiments.report.settings import ReportSettings
from reloop.experiments.report.write import write_report
from reloop.experiments.search.pruning import falls_behind
from reloop.experiments.search.settings import PruningSettings
from reloop.training.run_folder.run import RunFolder
from tests.experiments.report.measured import Page

from .conftest import OPTUNA, Write, result, rows, search

pytest.importorskip("optuna", reason=OPTUNA)


def test_the_better_rate_is_found_repeated_and_shown(
    search_file: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    search_file("trials: 4", "sampler: random")
    assert search() == 0
    said, first = capsys.readouterr().out, rows()
    assert [row["state"] for row in first] == ["done"] * 4
    best = min(first, key=lambda row: float(row["error"]))
    assert float(best["training.learning_rate"]) > 1e-4
    assert (
        float(best["error"]) < float(max(first, key=lambda row: float(row["error"]))["error"]) - 0.1
    )
    (command,) = (line for line in said.splitlines() if line.startswith("python run.py"))
    assert f"training.learning_rate={best['training.learning_rate']}" in command
    assert run.main(shlex.split(command)[2:]) == 0  # its run is there
    assert "trained already" in capsys.readouterr().out
    panels = {panel["name"]: panel for panel in result()["panels"]}
    assert list(panels) == ["parallel", "error-training-learning-rate"]
    assert panels["error-training-learning-rate"]["log_x"]
    curves = panels["parallel"]["curves"]
    assert [curve["mean"][-1] for curve in curves] == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert len({curve["number"] for curve in curves}) == 4
    write_report(ReportSettings(folder="runs", output="report"))
    figure = Page(Path("report/index.html")).figure("error of the last query by training.")
    assert len(figure["csv"]) == 5
    assert search("folder=elsewhere", "trials=2") == 0  # the same seed, the same trials
    again = [
        {**row, "runs": row["runs"].replace("elsewhere", "runs")} for row in _rows("elsewhere")
    ]
    assert again == first[:2]


def test_a_trial_of_other_code_is_shown_as_such(
    search_file: Write, capsys: pytest.CaptureFixture[str], edit: Callable[[str], None]
) -> None:
    search_file("trials: 2")
    assert search("trials=1") == 0
    assert "other code" not in capsys.readouterr().out
    edit("tasks/linear.py")
    assert search() == 0
    remark = "trial 0: trained by other code: tasks/linear.py differs now"
    assert remark in capsys.readouterr().out
    edit("")
    (path,) = (Path(row["runs"]) for row in rows() if row["trial"] == "1")
    shutil.rmtree(path)
    assert search() == 0
    assert f"trial 1: its run {path} is no longer there" in capsys.readouterr().out


def _rows(folder: str) -> list[dict[str, str]]:
    (path,) = Path(folder).glob("search-*")
    path.rename(path.with_name("search-moved"))
    Path("runs").rename("runs-before")
    Path(folder).rename("runs")
    return rows()


@pytest.mark.slow
def test_a_small_space_is_tried_once_and_goes_on(
    search_file: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    search_file("space: {training.learning_rate: {values: [0.01, 1.0e-7]}}", "seeds: 2")
    assert search("trials=1") == 0
    before = rows()
    assert len(before) == 1
    assert len(before[0]["runs"].split()) == 2
    assert search("trials=9") == 0
    assert "the space has 2 points" in capsys.readouterr().out
    assert rows()[:1] == before
    values = sorted(row["training.learning_rate"] for row in rows())
    assert values == ["0.01", "1e-07"]
    assert len(result()["members"]) == 4
    assert result()["missing"] == []


def test_bad_trials_end_early_and_a_diverging_one_fails(
    search_file: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    values = "[0.01, 1.0e-6, 1.0e-7, 1.0e-8, 1.0e+30]"
    search_file(
        f"space: {{training.learning_rate: {{values: {values}}}}}",
        "pruning: {rungs: [0.5], keep: 0.5, after: 2}",
        "sampler: random",
        "seed: 1",
        "trials: 5",
    )
    assert search() == 0
    said = capsys.readouterr().out
    by_rate = {row["training.learning_rate"]: row for row in rows()}
    assert by_rate["1e+30"]["state"] == "failed"
    assert "not finite" in by_rate["1e+30"]["reason"]
    assert by_rate["0.01"]["state"] == "done"
    pruned = [row for row in rows() if row["state"] == "pruned"]
    assert pruned
    for row in pruned:
        assert row["step"] == "30"
        assert RunFolder(Path(row["runs"])).status()["state"] == "interrupted"
    assert f"{len(pruned)} pruned, 1 failed" in said or f"1 failed, {len(pruned)} pruned" in said
    assert "pruned, their runs interrupted: " in said
    states = {member["state"] for member in result()["members"]}
    assert states == {"finished", "unfinished", "failed"}


def test_a_trial_goes_on_if_it_is_of_the_better_part() -> None:
    pruning = PruningSettings(rungs=(0.5,), keep=0.5, after=3)
    assert not falls_behind(9.0, [1.0], pruning)
    assert falls_behind(9.0, [1.0, 2.0], pruning)
    assert not falls_behind(1.5, [1.0, 2.0], pruning)
    assert not falls_behind(1.5, [1.0, 2.0, 3.0], pruning)
    assert falls_behind(2.5, [1.0, 2.0, 3.0], pruning)
    assert not falls_behind(math.inf, [], pruning)
