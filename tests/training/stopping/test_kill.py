"""Stopped at any moment, by Ctrl-C, SIGTERM or kill -9: everything is saved or taken up again, and
the same command ends as a run that was left in peace."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
import torch

from looplab.training import Interrupted, Run, train
from looplab.training.run_folder.checkpoint import Checkpoint, newest_checkpoint, saved_steps
from looplab.training.run_folder.run import RunFolder, run_folder
from looplab.training.step import Trainer
from tests.training.stopping.driven import Driven
from tests.training.tiny import after_step, assert_same_bits, interrupted, saved_tensors, tiny

SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_saved_and_said(number: signal.Signals, code: int, tmp_path: Path) -> None:
    config = tiny(tmp_path)
    handlers = [signal.getsignal(known) for known, _ in SIGNALS]
    stop = interrupted(config, 12, number)
    assert "saved after step 13; the same command resumes" in str(stop)
    assert stop.exit_code == code
    assert [signal.getsignal(known) for known, _ in SIGNALS] == handlers
    folder = run_folder(config)
    assert saved_steps(folder.checkpoints) == [10, 13]
    assert float(saved_tensors(config)["adam.step.read_in.weight"]) == 13
    status = folder.status()
    assert (status["state"], status["step"]) == ("interrupted", 13)
    assert '"step": 13' in folder.metrics.read_text().splitlines()[-1]


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

    def patched(self: Trainer) -> object:
        tensors = state(self)
        if tensors.get("adam.step.read_in.weight") == 20:
            os.kill(os.getpid(), signal.SIGINT)
        return tensors

    monkeypatch.setattr(Trainer, "state", patched)
    with pytest.raises(Interrupted) as stop:
        train(config)
    newest = saved_steps(run_folder(config).checkpoints)[-1]
    assert newest in (20, 21)
    assert f"saved after step {newest};" in str(stop.value)
    assert run_folder(config).status()["state"] == "interrupted"


def test_in_the_last_step_the_run_is_finished(tmp_path: Path) -> None:
    config = tiny(tmp_path)
    assert "saved after step 60" in str(interrupted(config, 59, signal.SIGTERM))
    assert run_folder(config).status()["state"] == "finished"


def test_training_in_another_thread(tmp_path: Path) -> None:
    """Only the main thread may handle signals: elsewhere training does without."""
    runs: list[Run] = []
    thread = threading.Thread(target=lambda: runs.append(train(tiny(tmp_path))))
    thread.start()
    thread.join()
    assert runs[0].step == 60


# Kills: in the writing of a checkpoint's tensors or of its JSON, just after a file was renamed,
# before a step, and wherever it happens to be.
_EACH_KIND = {"tensors": 2, "json": 2, "renamed": 1, "step": 2}
_TWENTY = {"tensors": 4, "json": 4, "renamed": 3, "step": 4, "anywhere": 5}


def _only_run(folder: Path) -> RunFolder:
    (path,) = folder.iterdir()
    return RunFolder(path)


def _newest(folder: Path) -> Checkpoint:
    checkpoint, problems = newest_checkpoint(_only_run(folder).checkpoints)
    assert not problems
    assert checkpoint is not None
    return checkpoint


def _go_to(driven: Driven, kind: str, chance: random.Random) -> str:
    """Go on to a place of that kind: the first one or, by chance, the second."""
    if kind in ("step", "anywhere"):
        driven.until(lambda place: place.startswith("step"))
        for _ in range(chance.randrange(1, 5)):
            driven.grant(1)
            place = driven.until(lambda place: place.startswith("step"))
        return place
    prefix = "renamed" if kind == "renamed" else "writing"
    suffix = {"tensors": ".safetensors", "json": ".json"}.get(kind, "")
    for again in range(1 + chance.randrange(2)):
        if again:
            driven.grant(1)
        place = driven.until(
            lambda place: (
                place.startswith(prefix) and "checkpoints" in place and place.endswith(suffix)
            )
        )
    return place


def _kill_once(driven: Driven, kind: str, chance: random.Random) -> None:
    place = _go_to(driven, kind, chance)
    if kind == "anywhere":
        driven.grant(chance.randrange(1, 14))
        time.sleep(chance.uniform(0, 0.02))
    driven.kill()
    if kind in ("tensors", "json"):
        target = Path(place.removeprefix("writing "))
        left = target.parent.glob(f"{target.name}.*.partial")  # also by those killed before
        partial = max(left, key=lambda path: path.stat().st_mtime_ns)
        content = partial.read_bytes()
        # What a power failure leaves may be less than what was written.
        partial.write_bytes(content[: chance.choice((0, len(content) // 2, len(content)))])


@pytest.mark.parametrize("plan", [_EACH_KIND, pytest.param(_TWENTY, marks=pytest.mark.slow)])
def test_killed_again_and_again(plan: dict[str, int], driven: Driven, tmp_path: Path) -> None:
    chance = random.Random(7)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    driven.start(whole, halting=False)
    assert driven.next() == "ended 0"
    kinds = list(Counter(plan).elements())
    chance.shuffle(kinds)
    after_a_step = 0
    for kind in kinds:
        driven.start(killed)
        _kill_once(driven, kind, chance)
        _, problems = newest_checkpoint(_only_run(killed).checkpoints)
        assert not problems, "what a kill leaves must not look damaged"
        after_a_step += sum(place.startswith("step") for place in driven.places) > 1
    assert 2 * after_a_step >= len(kinds)
    assert 0 < _newest(killed).step < 120
    driven.start(killed, halting=False)
    assert driven.next() == "ended 0"
    assert _newest(killed).step == _newest(whole).step == 120
    assert_same_bits(_newest(killed).tensors, _newest(whole).tensors)
    assert _only_run(killed).status()["state"] == "finished"


def test_killed_while_it_begins(driven: Driven, tmp_path: Path) -> None:
    """The run folder itself is half made."""
    driven.start(tmp_path)
    driven.until(lambda place: place.startswith("writing") and place.endswith("config.yaml"))
    driven.kill()
    driven.start(tmp_path, halting=False)
    assert driven.next() == "ended 0"
    assert _newest(tmp_path).step == 120
    assert torch.isfinite(_newest(tmp_path).weights()["read_out.weight"]).all()


def test_killed_before_it_says_finished(driven: Driven, tmp_path: Path) -> None:
    """The last checkpoint is there, the status still says running: the next start puts it right."""
    driven.start(tmp_path)
    driven.until(lambda place: place.startswith("renamed") and place.endswith("00000120.json"))
    driven.kill()
    driven.start(tmp_path, halting=False)
    assert driven.next() == "ended 0"
    assert _only_run(tmp_path).status()["state"] == "finished"
