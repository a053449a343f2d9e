"""A grid that is killed and asked for again: every run once, with the weights of a grid that was
left in peace, byte for byte."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from looplab import main as run

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
    assert len(_weights(whole)) == 3
