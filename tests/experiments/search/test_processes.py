"""A search in several processes: shared without doubling, and carried on after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from reloop.conf.mistakes import HeldElsewhere
from reloop.experiments.search.definition import Search
from reloop.experiments.search.study import Study
from reloop.training.run_folder.run import run_folder
from reloop.training.run_folder.status import status_of

from .conftest import OPTUNA, Write, rows, search

pytest.importorskip("optuna", reason=OPTUNA)
Started = Callable[..., "subprocess.Popen[str]"]
_TRAINED = "config.yaml"


def _wait_for(there: Callable[[], object]) -> None:
    deadline = time.monotonic() + 120
    while not there():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _runs() -> list[Path]:
    return [path.parent for path in Path("runs").glob(f"*/{_TRAINED}")]


@pytest.mark.slow
def test_a_killed_search_goes_on_with_the_same_trials(
    search_file: Write, started: Started, capsys: pytest.CaptureFixture[str]
) -> None:
    search_file("trials: 2", "sampler: random")
    process = started("jobs=1", "training.steps=200")
    _wait_for(lambda: any(status_of(path)["step"] >= 20 for path in _runs()))
    process.send_signal(signal.SIGKILL)
    process.wait()
    (killed,) = _runs()
    assert status_of(killed)["state"] == "stopped"
    study = Study(Search.of(["search=mine.yaml", "training.steps=200"]))
    (left,) = study.trials()
    assert left.state == "running"
    with open(study.search.folder / "journal.log", "ab") as file:
        file.write(b'{"op_code": 4, "work')  # as a write that a power cut ended
    assert search("training.steps=200") == 0
    assert f"{killed}: resuming from step" in capsys.readouterr().out
    found = rows()
    assert [row["trial"] for row in found] == ["0", "1"]
    assert [row["state"] for row in found] == ["done"] * 2
    assert found[0]["runs"] == str(killed)
    assert len(_runs()) == 2


def test_no_trial_is_made_twice_and_none_too_many(search_file: Write) -> None:
    search_file("trials: 3", "sampler: random")
    first, second = (Study(Search.of(["search=mine.yaml"])) for _ in range(2))
    with ExitStack() as one, ExitStack() as other:
        claimed = [first.claim(one), second.claim(other), first.claim(one)]
        assert [trial.number for trial in claimed if trial] == [0, 1, 2]
        with pytest.raises(HeldElsewhere) as held:
            second.claim(other)
        assert held.value.lock == second.lock_of(2)
        first.tell(0, 0.5)
        assert second.left() == 2
    with ExitStack() as stack:  # both processes are gone
        taken = [second.claim(stack), second.claim(stack)]
        assert taken == claimed[1:]
        second.tell(1, 0.4)
        second.prune(2, "too slow")
        assert second.claim(stack) is None
    states = [(each.state, each.error, each.reason) for each in first.trials()]
    assert states == [("done", 0.5, ""), ("done", 0.4, ""), ("pruned", None, "too slow")]


def test_a_run_that_somebody_trains_by_hand_is_waited_for(
    search_file: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    search_file("trials: 1")
    definition = Search.of(["search=mine.yaml"])
    with ExitStack() as stack:
        trial = Study(definition).claim(stack)
    assert trial is not None
    holding, done = threading.Event(), threading.Event()

    def hold() -> None:
        with run_folder(definition.configs(trial.values)[0]).lock():
            holding.set()
            done.wait(1.5)

    thread = threading.Thread(target=hold)
    thread.start()
    assert holding.wait(60)
    assert search() == 0
    thread.join()
    said = capsys.readouterr().out
    assert said.count("is being worked on by process ") == 1
    assert "1 of 1 trials done" in said


@pytest.mark.slow
def test_two_shells_share_a_search(search_file: Write, started: Started) -> None:
    search_file("trials: 4", "sampler: random")
    other = started("jobs=1")
    _wait_for(_runs)
    assert search() == 0
    said, _ = other.communicate(timeout=120)
    assert other.returncode == 0, said
    assert "4 of 4 trials done" in said
    found = rows()
    assert [row["state"] for row in found] == ["done"] * 4
    assert len({row["training.learning_rate"] for row in found}) == 4
    assert len(_runs()) == 4


@pytest.mark.slow
def test_a_killed_worker_s_trial_is_made_by_another(search_file: Write, started: Started) -> None:
    search_file("trials: 4", "sampler: random")
    process = started("jobs=2", "training.steps=600")
    _wait_for(lambda: any(status_of(path)["step"] >= 20 for path in _runs()))
    busy = next(path for path in _runs() if status_of(path)["step"] >= 20)
    worker = int(status_of(busy)["pid"])
    assert worker != process.pid
    os.kill(worker, signal.SIGKILL)
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 0, said
    assert "was ended by SIGKILL, it is tried once more" in said
    found = rows()
    assert [row["state"] for row in found] == ["done"] * 4
    assert len(_runs()) == 4
    logs = "".join(path.read_text() for path in Path("runs").glob("search-*/logs/*.txt"))
    assert f"{busy}: resuming from step" in logs


def test_a_trial_that_kills_its_processes_fails_in_the_end(search_file: Write) -> None:
    search_file("trials: 1")
    study = Study(Search.of(["search=mine.yaml"]))
    for _ in range(8):
        with ExitStack() as stack:
            assert study.claim(stack) is not None
    with ExitStack() as stack:
        assert study.claim(stack) is None
    (trial,) = study.trials()
    assert trial.state == "failed"
    assert "was lost 8 times at step 0" in trial.reason
