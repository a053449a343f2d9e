"""A grid of 8 runs whose parent, workers and all are killed, and that four shells share: in the end
every run once, with the weights and pictures of a grid that was left in peace, byte for byte."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from looplab.training.run_folder.status import status_of
from tests.experiments.grids.test_kills import shown_files
from tests.training.stopping.killed import Killable, Subject, disturbed, written

_KILLS = 50
_GRID = [
    *("looplab", "-m", "task=linear", "task.dims=2", "task.points=5", "model.n_embd=8"),
    *("model.n_head=2", "loops.b=3", "loops.T=2", "training.steps=300", "training.batch_size=8"),
    *("training.checkpoint_every=50", "training.log_every=50", "evaluation.prompts=16"),
    *("evaluation.resamples=20", "training.learning_rate=1e-3,3e-3", "seed=0,1,2,3"),
]


def _found(folder: Path) -> dict[str, bytes]:
    """The last weights of each run, what it shows of its evaluation, and the table of the grid."""
    runs = sorted(folder.glob("linear-*"))
    assert [status_of(run)["state"] for run in runs] == ["finished"] * 8
    found = {run.name: next(run.glob("checkpoints/*300.safetensors")).read_bytes() for run in runs}
    (table,) = folder.glob("grid-*/settings.csv")
    return found | shown_files(folder) | {"settings": table.read_bytes()}


def _in_peace(subject: Subject, folder: Path, started: list[Killable]) -> dict[str, bytes]:
    started.append(command := subject.start(folder, 0))
    assert command.code() == 0, command.printed
    return _found(folder)


@pytest.mark.slow
def test_killed_fifty_times_a_grid_ends_as_one_that_is_not(
    tmp_path: Path, started: list[Killable]
) -> None:
    subject = Subject([*_GRID, "jobs=2"])
    chance, whole = random.Random(7), tmp_path / "whole"
    expected, ended = _in_peace(subject, whole, started), 0
    most = len(written(whole)) // 4  # so that one grid is killed several times
    while subject.kills.total() < _KILLS:
        ended += 1
        folder = tmp_path / f"killed-{ended}"
        command = disturbed(subject, folder, most, chance, started)
        assert command.code() == 0, command.printed
        assert "8 done, 0 failed" in command.printed
        assert "Traceback" not in command.printed
        assert _found(folder) == expected
        print(f"{dict(subject.kills)}, {ended} ended, {max(subject.gone, default=0):.1f} s")


@pytest.mark.slow
@pytest.mark.parametrize("repetition", range(3))
def test_four_shells_share_a_grid(repetition: int, tmp_path: Path, started: list[Killable]) -> None:
    """Each run is trained by one of them, and each shell ends with the whole."""
    subject, folder = Subject([*_GRID, "jobs=1"]), tmp_path / "shared"
    alone = _in_peace(subject, tmp_path / "alone", started)
    shells = [subject.start(folder, number) for number in range(1, 5)]
    started += shells
    for shell in shells:
        assert shell.code() == 0, shell.printed
        assert "8 done, 0 failed" in shell.printed
        assert "failed:" not in shell.printed
    assert "".join(shell.printed for shell in shells).count("step 300/300") == 8
    assert _found(folder) == alone
