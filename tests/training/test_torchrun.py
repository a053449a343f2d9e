"""The command line under torchrun: stopped, killed, and used for what it is not for."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from reloop import Config, train
from reloop import main as run
from reloop.training.run_folder.run import run_folder
from tests.conftest import HOME
from tests.training.stopping.killed import until
from tests.training.tiny import assert_same_bits, saved_tensors

_WORDS = (
    *("task=linear", "task.dims=2", "task.points=5", "model.n_embd=16", "model.n_head=2"),
    *("loops.b=4", "loops.T=2", "training.steps=100000", "training.batch_size=8"),
    *("training.checkpoint_every=50", "training.log_every=50", "training.shards=2", "device=cpu"),
)
_ALONE = {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost"}


class _Torchrun:
    """run.py in two processes, in a session of their own."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.out, self.err = folder / "out", folder / "err"
        words = [
            *options,
            "--standalone",
            "--nproc-per-node=2",
            "run.py",
            *_WORDS,
            f"folder={folder}/runs",
        ]
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "torch.distributed.run", *words],
                cwd=HOME,
                env=os.environ | {"OMP_NUM_THREADS": "1"},
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        until(lambda: "steps/s" in self.out.read_text() or self.process.poll() is not None)
        self.pids = self.ranks()

    def ranks(self) -> list[int]:
        """The processes that train, in sessions of their own."""
        found = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                state, parent, *_ = path.read_text().rpartition(")")[2].split()
                if parent == str(self.process.pid) and state not in "ZX":
                    found.append(int(path.parent.name))
        return sorted(found)

    def lines(self) -> list[str]:
        """What the processes said as errors, without what torchrun reports of them."""
        return [line for line in self.err.read_text().splitlines() if line.startswith("run.py:")]

    def end(self) -> None:
        for pid in {*self.pids, *self.ranks()}:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_where_one_is_killed_all_end(rank: int, tmp_path: Path) -> None:
    killed = _Torchrun(tmp_path)
    try:
        os.kill(killed.pids[rank], signal.SIGKILL)
        start = time.monotonic()
        until(lambda: not any(Path("/proc", str(pid)).exists() for pid in killed.pids))
        assert killed.process.wait() == 1
        assert time.monotonic() - start < 30
    finally:
        killed.end()
    said = "run.py: another process of torchrun ended; the last checkpoint is intact"
    assert killed.lines() == [said] * rank  # only the first says something


@pytest.mark.slow
def test_torchrun_starts_it_again(tmp_path: Path) -> None:
    again = _Torchrun(tmp_path, "--max-restarts=1")
    try:
        os.kill(again.pids[1], signal.SIGKILL)
        until(lambda: "resuming from step" in again.out.read_text(), 60)
        until(lambda: again.out.read_text().count("steps/s") > 1, 60)
        again.pids += again.ranks()
        os.kill(again.process.pid, signal.SIGTERM)
        again.process.wait(30)
    finally:
        again.end()
    assert "saved after step" in again.out.read_text()


@pytest.mark.slow
def test_stopped_it_is_saved_and_goes_on(tmp_path: Path) -> None:
    stopped = _Torchrun(tmp_path)
    try:
        os.kill(stopped.process.pid, signal.SIGTERM)
        stopped.process.wait(30)
    finally:
        stopped.end()
    assert not stopped.lines()
    out = stopped.out.read_text()
    (step,) = map(int, re.findall(r"saved after step (\d+); the same command", out))

    config, alone = (Config.of(*_WORDS, f"folder={tmp_path}/{name}") for name in ("runs", "alone"))
    assert run_folder(config).status()["state"] == "interrupted"
    for each in (config, alone):  # one process goes on
        train(each, until=step + 10)
    assert_same_bits(saved_tensors(config), saved_tensors(alone))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("training.shards=3 training.batch_size=12", "training.shards is 3, but 2 processes need"),
        ("training.batch_size=8", "training.shards=2 would do"),
        ("training.batch_size=7", "training.batch_size=7 has no parts for"),
        ("training.shards=2 device=cuda:1", "device cannot be cuda:1 under torchrun"),
        ("-m seed=0,1 training.shards=2", "torchrun is for one training: start a grid (-m)"),
        ("action=evaluate run=shipped/sparse_linear", "start action=evaluate without it"),
        ("action=list", "torchrun is for one training: start this command without it"),
        ("experiment=fig03", "torchrun is for one training: start this command without it"),
        ("training.stpes=5", "did you mean 'training.steps'"),
    ],
)
@pytest.mark.parametrize("rank", [0, 1])
def test_a_mistake_is_said_by_the_first_process(
    rank: int,
    words: str,
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("reloop.conf.command._HEAD_START", 0.0)
    monkeypatch.setattr(sys, "stdout", sys.stdout)  # of another process than the first it is closed
    for name, value in (_ALONE | {"RANK": f"{rank}", "MASTER_PORT": "1"}).items():
        monkeypatch.setenv(name, value)
    assert run.main(words.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert (err == "") if rank else (err.count("\n") == 1 and expected in err)
    assert not list(tmp_path.iterdir())
