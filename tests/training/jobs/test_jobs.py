"""run_jobs: a job whose folder somebody holds waits, one whose process is lost is tried again, and
Ctrl-C ends all."""

import os
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from looplab.training.jobs import run_jobs
from looplab.training.run_folder.run import RunFolder
from tests.training.stopping.killed import until


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
    outcomes = run_jobs(jobs, 1, tmp_path / "logs")
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
