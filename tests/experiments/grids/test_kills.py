"""A grid that is killed and asked for again, or killed fifty times, parent, workers and all, or
shared by four shells: every run once, with the weights and pictures of a grid that was left in
peace, byte for byte."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from looplab import main as run
from looplab.show import drawing
from looplab.training.run_folder.files import read_record
from looplab.training.run_folder.status import status_of
from tests.training.stopping.killed import Killable, Subject, disturbed, written

_GRID = [
    *("-m", "task=linear", "task.dims=2", "task.points=5", "model.n_embd=8", "model.n_head=2"),
    *("loops.b=3", "loops.T=2", "training.steps=60", "training.batch_size=8", "jobs=1"),
    *("training.checkpoint_every=10", "evaluation.prompts=16", "evaluation.resamples=20"),
    "seed=0,1,2",
]


def _weights(folder: Path) -> dict[str, bytes]:
    """The last weights of each run."""
    found = sorted(folder.glob("linear-*/checkpoints/*60.safetensors"))
    return {path.parts[-3]: path.read_bytes() for path in found}


def shown_files(folder: Path) -> dict[str, bytes]:
    """What the evaluation.json of each run lists. Only the names of each npz, which has the time of
    its writing, and of the training's curve, which has a point more where it was halted."""
    found = {}
    for path in sorted(folder.glob("linear-*")):
        content = read_record(path / "evaluation.json", "evaluation").content
        assert content, f"{path} shows no evaluation"
        for name in content["files"]:
            file = path / name
            varies = file.suffix == ".npz" or file.stem == "training"
            found[f"{path.name}/{name}"] = b"" if varies else file.read_bytes()
            assert file.exists()
    return found


@pytest.mark.usefixtures("undrawn")
def test_a_killed_grid_ends_as_one_that_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert run.main([*_GRID, f"folder={whole}"]) == 0
    command = [sys.executable, "-m", "looplab", *_GRID, f"folder={killed}"]
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL)
    # The first is done, the second on its way.
    while not (_weights(killed) and len([*killed.glob("*/checkpoints")]) > 1):
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert len(_weights(killed)) < 3
    capsys.readouterr()
    assert run.main([*_GRID, f"folder={killed}"]) == 0
    assert "3 done, 0 failed" in capsys.readouterr().out
    assert _weights(killed) == _weights(whole)
    assert shown_files(killed).keys() == shown_files(whole).keys()  # some were rendered
    assert len(_weights(whole)) == 3


class _KilledError(BaseException):
    """What no code here may hold up, as it could not a kill."""


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("written", [0, 3])
def test_a_grid_that_is_killed_while_it_draws_draws_all_when_it_is_asked_again(
    written: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The run has two evaluations, of which the last is shown; errors are kept, pictures begun."""
    words = [word for word in _GRID if not word.startswith(("seed=", "training.steps="))]
    words = [*words, "training.steps=10", "evaluation.seed=1,2"]
    assert run.main([*words, f"folder={tmp_path / 'whole'}"]) == 0
    again = [*words, f"folder={tmp_path / 'killed'}"]
    drawn = []

    def dies(path: Path, content: bytes) -> None:
        drawn.append(path)
        if path.parent.name == "figures" and len(drawn) > written:
            raise _KilledError
        path.write_bytes(content)

    for _ in range(2):  # the first evaluation, then the second
        drawn.clear()
        with monkeypatch.context() as patch:
            patch.setattr(drawing, "write_bytes", dies)
            with pytest.raises(_KilledError):
                run.main(again)
    capsys.readouterr()
    assert run.main(again) == 0
    assert "2 done, 0 failed" in capsys.readouterr().out
    assert shown_files(tmp_path / "killed") == shown_files(tmp_path / "whole")
    assert len(shown_files(tmp_path / "whole")) > 10


_KILLS = 50
_LARGE = [
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
    subject = Subject([*_LARGE, "jobs=2"])
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
    subject, folder = Subject([*_LARGE, "jobs=1"]), tmp_path / "shared"
    alone = _in_peace(subject, tmp_path / "alone", started)
    shells = [subject.start(folder, number) for number in range(1, 5)]
    started += shells
    for shell in shells:
        assert shell.code() == 0, shell.printed
        assert "8 done, 0 failed" in shell.printed
        assert "failed:" not in shell.printed
    assert "".join(shell.printed for shell in shells).count("step 300/300") == 8
    assert _found(folder) == alone
