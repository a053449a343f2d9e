"""Captured steps are the steps: none lost, none made twice, none on a stale graph; and what they
ask of CUDA, seen without one."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from looplab.training.graph import GraphRunner
from looplab.training.run_folder.checkpoint import Checkpoint
from tests.training.graph.captured import (
    RULE,
    VARIANTS,
    BrokenRecorder,
    captured_trainer,
    everything,
    variant,
)
from tests.training.tiny import (
    assert_same_bits,
    copied,
    make_trainer,
    spoil_ys,
    tiny,
)


@pytest.mark.parametrize("name", VARIANTS)
def test_captured_is_uncaptured(name: str, tmp_path: Path) -> None:
    """To the bit, after every step: weights, Adam's state, gradients and totals. A tape knows
    nothing of Python: what the host changes and the device is not told stays as it was."""
    config = variant(name, tmp_path)
    plain, (taped, recorder) = make_trainer(config), captured_trainer(config)
    for step in range(22):
        plain.update(step)
        taped.update(step)
        assert_same_bits(everything(taped), everything(plain))
    assert plain.fetch() == taped.fetch()
    assert "replay" in recorder.events


def test_each_stage_is_run_three_times_then_captured_once(tmp_path: Path) -> None:
    trainer, recorder = captured_trainer(variant("multiply", tmp_path))
    stages, wanted, made = [trainer.curriculum(step) for step in range(22)], [], 0
    for step, stage in enumerate(stages):
        made = made + 1 if step and stage == stages[step - 1] else 1
        wanted += ["warm_up"] if made <= 3 else ["capture", "replay"] if made == 4 else ["replay"]
        trainer.update(step)
    assert recorder.events == wanted
    assert wanted.count("capture") == 3
    assert len(set(stages)) == 5


def test_a_checkpoint_is_gone_on_from_without_the_old_graph(tmp_path: Path) -> None:
    """Loading puts Adam's state elsewhere, and a graph would write where it was."""
    config = tiny(tmp_path, **RULE)
    plain, (taped, recorder) = make_trainer(config), captured_trainer(config)
    for step in range(5):
        plain.update(step)
    checkpoint = Checkpoint(5, copied(plain.state()))
    for step in range(9):
        taped.update(step)
    for step in range(5, 15):
        plain.update(step)
    taped.load(checkpoint)
    assert taped.runner.replay is None
    for step in range(5, 15):
        taped.update(step)
    assert_same_bits(taped.state(), plain.state())
    assert recorder.events.count("capture") == 2


def test_a_bad_step_is_named_by_its_number(tmp_path: Path) -> None:
    """A number of the host's would be that of the captured step for ever."""
    trainer, _ = captured_trainer(tiny(tmp_path))
    for step in range(8):
        trainer.update(step)
    with torch.no_grad():
        trainer.model.get_parameter("read_out.bias").fill_(math.nan)
    for step in (8, 9):
        trainer.update(step)
    assert trainer.fetch().bad_step == 8


def test_where_capturing_fails_training_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = variant("jacobian", tmp_path)
    plain, taped, recorder = make_trainer(config), make_trainer(config), BrokenRecorder()
    taped.runner = GraphRunner(recorder)
    for step in range(22):
        plain.update(step)
        taped.update(step)
    assert_same_bits(everything(taped), everything(plain))
    assert recorder.events.count("capture") == 1
    assert not {id(generator) for generator in recorder.held} & {
        id(generator) for generator in taped.generators
    }
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert "not captured as a CUDA graph" in out
    assert "not permitted when stream is capturing" in out


def test_the_tape_can_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that the host spoils from step 6 on: a captured step does not know of it."""
    plain, (taped, _) = make_trainer(tiny(tmp_path)), captured_trainer(tiny(tmp_path))
    spoil_ys(monkeypatch, 7.0, lambda _, step, shard: step >= 6)
    for step in range(8):
        plain.update(step)
        taped.update(step)
    with pytest.raises(AssertionError):
        assert_same_bits(taped.state(), plain.state())
