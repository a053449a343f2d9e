"""run_jobs: a job whose folder somebody holds waits, one whose process is lost is tried again, and
Ctrl-C ends all."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from looplab.conf.command import run_command
from looplab.training.jobs import run_jobs
from looplab.training.run_folder.run import RunFolder
from tests.training.stopping.killed import Killable, until


@dataclass(frozen=True)
class Works:
    """Holds its folder and counts there how often it was done."""

    name: str
    folder: Path

    def __call__(self) -> dict[str, Any]:
        self.folder.mkdir(exist_ok=True)
        with RunFolder(self.folder).lock(), open(self.folder / "done", "a") as file:
            file.write("x")
        return {"name": self.name, "device": os.environ.get("CUDA_VISIBLE_DEVICES")}

    def describe(self, result: dict[str, Any]) -> str:
        return "done"


@dataclass(frozen=True)
class Dies(Works):
    """Kills its process `times` times."""

    times: int = 1

    def __call__(self) -> dict[str, Any]:
        self.folder.mkdir(exist_ok=True)
        died = self.folder / "died"
        with open(died, "a") as file:
            file.write("x")
        if len(died.read_text()) <= self.times:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__()


@dataclass(frozen=True)
class Sleeps(Works):
    """Is at work for as long as anybody waits."""

    def __call__(self) -> dict[str, Any]:
        self.folder.mkdir(exist_ok=True)
        (self.folder / "begun").touch()
        time.sleep(600)
        return {}


def test_a_job_that_is_held_elsewhere_waits_for_its_turn(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    jobs = [Works(name, tmp_path / name) for name in ("first", "second")]
    holding = threading.Event()

    def hold_until_the_others_are_done() -> None:
        jobs[0].folder.mkdir()
        with RunFolder(jobs[0].folder).lock():
            holding.set()
            until((tmp_path / "second" / "done").exists)
            time.sleep(1.5)  # longer than between two looks

    thread = threading.Thread(target=hold_until_the_others_are_done)
    thread.start()
    assert holding.wait(60)
    outcomes = run_jobs(jobs, 2, tmp_path / "logs")
    thread.join()
    assert [o.result and o.result["name"] for o in outcomes] == ["first", "second"]
    said = capfd.readouterr().out.splitlines()
    (line,) = [line for line in said if "in use by" in line]
    assert line.startswith("first: in use by process ")
    assert said[-1] == "first: done"
    assert "failed" not in "".join(said)


def test_a_job_whose_process_is_killed_is_tried_once_more_on_a_device(tmp_path: Path) -> None:
    jobs = [
        Dies("once", tmp_path / "once"),
        Dies("twice", tmp_path / "twice", times=2),
        Works("other", tmp_path / "other"),
    ]
    once, twice, other = run_jobs(jobs, 2, tmp_path / "logs", devices=("3", "5"))
    assert once.result
    assert other.result
    assert {once.result["device"], other.result["device"]} <= {"3", "5"}
    log = tmp_path / "logs" / "twice.txt"
    assert twice.failure == (f"tried twice: its process was ended by SIGKILL; {log} has more")


def test_ctrl_c_ends_the_waiting(tmp_path: Path) -> None:
    jobs = [Works("held", tmp_path / "held")]
    jobs[0].folder.mkdir()
    ended: list[float] = []

    def interrupt() -> None:
        ended.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(0.5, interrupt)
    with RunFolder(jobs[0].folder).lock():
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            run_jobs(jobs, 1, tmp_path / "logs")
        timer.join()
    assert time.monotonic() - ended[0] < 5
    assert not (jobs[0].folder / "done").exists()


@dataclass(frozen=True)
class Settings:
    """What the command below may be asked for."""

    folder: str

    def check(self) -> None:
        pass


def measure(settings: Settings) -> str:
    here = Path(settings.folder)
    run_jobs([Sleeps(name, here / name) for name in "ab"], 2, here / "logs")
    return "done"


@pytest.mark.slow
def test_ctrl_c_twice_ends_a_command(tmp_path: Path) -> None:
    command = Killable([__name__, f"folder={tmp_path}"], tmp_path / "said")
    begun = [tmp_path / name / "begun" for name in "ab"]
    try:
        until(lambda: all(path.exists() for path in begun))
        command.interrupt()
        command.interrupt()
        assert command.code() == 130
        until(lambda: not command.workers(), timeout=10)
    finally:
        command.end()
    assert command.printed == "\nstopped; the same command resumes\n"


if __name__ == "__main__":
    stopped = "stopped; the same command resumes"
    sys.exit(run_command(__name__, Settings, sys.argv[1:], str, measure, stopped))
