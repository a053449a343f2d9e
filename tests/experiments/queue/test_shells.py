"""Commands on one machine that work on the same runs share its cores."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from reloop import main as run
from reloop.conf.compose import commands
from reloop.experiments.grids.grid import Grid
from reloop.experiments.queue import shells
from reloop.experiments.queue.shells import counted
from reloop.training.jobs.cores import cores

_TINY = (
    "task=linear task.dims=2 task.points=4 model.n_embd=8 model.n_head=2 loops.b=2 loops.T=1 "
    "training.steps=2 training.batch_size=4 evaluation.prompts=8 evaluation.resamples=20 seed=0,1"
)


def test_those_on_the_same_cores_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for on, expected in ((({0, 1}, {1, 2}), 5), (({0, 1}, {2, 3}), 3)):
        numbers = iter(on)
        monkeypatch.setattr(shells, "affinity", lambda numbers=numbers: next(numbers))
        with counted(tmp_path, 2) as first, counted(tmp_path, 3) as second:
            assert first.workers_before() == 0
            assert second.workers_before() == expected - 3
            assert second.workers() == expected
        assert first.workers() == 0
        assert not list(tmp_path.glob(".shell*.lock"))


def test_a_slurm_task_has_its_cores_for_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    with counted(tmp_path, 2):
        monkeypatch.setenv("SLURM_PROCID", "1")
        with counted(tmp_path, 3) as second:
            assert (second.workers(), second.workers_before()) == (3, 0)


def test_a_command_waits_for_earlier_ones_that_keep_all_cores_busy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*_TINY.split(), f"folder={tmp_path}"]
    grid = Grid.of(commands(words, multirun=True))
    begun: list[bool] = []
    counts = threading.Event()

    def keep_all_cores() -> None:
        with counted(grid.folder / "logs", cores()):
            counts.set()
            time.sleep(3)
            begun.extend(member.path.exists() for member in grid.members)

    thread = threading.Thread(target=keep_all_cores)
    thread.start()
    assert counts.wait(60)
    assert run.main(["-m", *words, "jobs=1"]) == 0
    thread.join()
    assert begun == [False, False]
    out = capsys.readouterr().out
    number = cores()
    waiting = f"waiting: {number} processes of other shells keep the {number} cores of this machine"
    assert out.count(waiting) == 1
    assert "2 done, 0 failed" in out
