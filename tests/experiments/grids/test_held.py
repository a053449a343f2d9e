"""`python run.py -m …`: a member that another process works on waits, and has not failed."""

import threading
import time
from pathlib import Path

import pytest

from looplab import main as run
from looplab.conf.compose import commands
from looplab.training.run_folder.run import RunFolder, run_folder

_TINY = (
    "task=linear task.dims=2 task.points=4 model.n_embd=8 model.n_head=2 loops.b=2 loops.T=1 "
    "training.steps=2 training.batch_size=4 evaluation.prompts=8 evaluation.resamples=20"
)


def test_a_member_that_is_held_is_done_last(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*_TINY.split(), "seed=0,1", f"folder={tmp_path}"]
    first, second = (run_folder(each.config) for each in commands(words, multirun=True))
    first.path.mkdir(parents=True)
    holding = threading.Event()

    def hold_until_the_other_is_done() -> None:
        with first.lock():
            holding.set()
            while RunFolder(second.path).status()["state"] != "finished":
                time.sleep(0.05)

    thread = threading.Thread(target=hold_until_the_other_is_done)
    thread.start()
    assert holding.wait(60)
    assert run.main(["-m", *words, "jobs=1"]) == 0
    thread.join()
    said = capsys.readouterr()
    assert said.out.count("in use by process ") == 1
    assert ", waiting\n" in said.out
    assert "2 done, 0 failed" in said.out
    assert said.err == ""
