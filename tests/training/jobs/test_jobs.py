"""run_jobs: a job whose folder somebody holds waits, one whose process is lost has failed, and
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

    def progress(self) -> str:
        return ""

    def describe(self, result: dict[str, Any]) -> str:
        return "done"


@dataclass(frozen=True)
class Dies(Works):
    """Kills its process."""

    def __call__(self) -> dict[str, Any]:
        os.kill(os.getpid(), signal.SIGKILL)
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
    outcomes = run_jobs(jobs, 1, tmp_path / "logs")
    thread.join()
    assert [o.result and o.result["name"] for o in outcomes] == ["first", "second"]
    said = capfd.readouterr().out.splitlines()
    (line,) = [line for line in said if "in use by" in line]
    assert line.startswith("first: in use by process ")
    assert said[-1] == "first: done"
    assert "failed" not in "".join(said)


def test_a_job_whose_process_is_killed_has_failed_and_its_device_is_free(tmp_path: Path) -> None:
    jobs = [Dies("dies", tmp_path), Works("one", tmp_path / "1"), Works("two", tmp_path / "2")]
    dies, one, two = run_jobs(jobs, 2, tmp_path / "logs", devices=("3", "5"))
    assert {one.result["device"], two.result["device"]} <= {"3", "5"}
    log = tmp_path / "logs" / "dies.txt"
    assert dies.failure == f"its process was ended by SIGKILL; {log} has more"


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
