"""Ctrl-C and SIGTERM: the step is ended, everything is saved, and the caller is told."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from reloop.training import Interrupted, Run, train
from reloop.training.run_folder.checkpoint import saved_steps
from reloop.training.run_folder.run import run_folder
from reloop.training.step import Totals, Trainer
from tests.training.tiny import after_step, saved_tensors, tiny

SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_saved_and_said(
    number: signal.Signals, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny(tmp_path)
    handlers = [signal.getsignal(known) for known, _ in SIGNALS]
    after_step(monkeypatch, 12, lambda: os.kill(os.getpid(), number))
    with pytest.raises(Interrupted, match="saved after step 13; the same command resumes") as stop:
        train(config)
    assert stop.value.exit_code == code
    assert [signal.getsignal(known) for known, _ in SIGNALS] == handlers
    folder = run_folder(config)
    assert saved_steps(folder.checkpoints) == [10, 13]
    assert float(saved_tensors(config)["adam.step.read_in.weight"]) == 13
    status = folder.status()
    assert (status["state"], status["step"]) == ("interrupted", 13)
    assert '"step": 13' in folder.metrics.read_text().splitlines()[-1]


def test_it_is_said_that_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tiny(tmp_path)
    after_step(monkeypatch, 12, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(Interrupted):
        train(config)
    assert "going on" not in capsys.readouterr().out
    train(config)
    assert "resuming from step 13" in capsys.readouterr().out
    assert run_folder(config).status()["state"] == "finished"


def test_the_first_of_two_signals_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An impatient second Ctrl-C does not cut the saving."""

    def both() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)

    config = tiny(tmp_path)
    after_step(monkeypatch, 12, both)
    with pytest.raises(Interrupted) as stop:
        train(config)
    assert stop.value.exit_code == 143
    assert saved_steps(run_folder(config).checkpoints)[-1] == 13


def test_while_it_saves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes while the checkpoint of step 20 is made: that one counts, or the next step's."""
    config = tiny(tmp_path)
    state = Trainer.state

    def interrupted(self: Trainer) -> object:
        tensors = state(self)
        if tensors.get("adam.step.read_in.weight") == 20:
            os.kill(os.getpid(), signal.SIGINT)
        return tensors

    monkeypatch.setattr(Trainer, "state", interrupted)
    with pytest.raises(Interrupted) as stop:
        train(config)
    newest = saved_steps(run_folder(config).checkpoints)[-1]
    assert newest in (20, 21)
    assert f"saved after step {newest};" in str(stop.value)
    assert run_folder(config).status()["state"] == "interrupted"


def test_while_it_waits_for_the_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU most of the time is spent in fetch(): that is when a Ctrl-C comes."""
    config = tiny(tmp_path)
    fetch, fetched = Trainer.fetch, []

    def interrupted(self: Trainer) -> Totals:
        fetched.append(True)
        if len(fetched) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return fetch(self)

    monkeypatch.setattr(Trainer, "fetch", interrupted)
    with pytest.raises(Interrupted) as stop:
        train(config)
    (newest,) = saved_steps(run_folder(config).checkpoints)[-1:]
    assert f"saved after step {newest};" in str(stop.value)
    assert newest >= 15


def test_in_the_last_step_the_run_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny(tmp_path)
    after_step(monkeypatch, 59, lambda: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(Interrupted, match="saved after step 60"):
        train(config)
    assert run_folder(config).status()["state"] == "finished"


def test_training_in_another_thread(tmp_path: Path) -> None:
    """Only the main thread may handle signals: elsewhere training does without."""
    runs: list[Run] = []
    thread = threading.Thread(target=lambda: runs.append(train(tiny(tmp_path))))
    thread.start()
    thread.join()
    assert runs[0].step == 60
