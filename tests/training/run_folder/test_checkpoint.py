"""Checkpoint files: whole or refused, whatever happened to them, and never anything but tensors; of
damaged ones the one before is used, to the very same end; snapshots, which stay."""

import hashlib
import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from looplab.conf.checksum import checksum_of
from looplab.conf.schema import Config
from looplab.evaluation.load import load_run
from looplab.training import RunError, train
from looplab.training.run_folder.checkpoint import (
    CheckpointError,
    load_checkpoint,
    newest_checkpoint,
    save_checkpoint,
    saved_steps,
    snapshots_of,
)
from looplab.training.run_folder.files import write_bytes
from looplab.training.run_folder.run import run_folder
from tests.training.tiny import assert_same_bits, crashed, interrupted, saved_tensors, tiny

TENSORS: dict[str, Tensor] = {
    "model.weight": torch.tensor([[1.5, -0.0], [float("nan"), float("inf")]]),
    "model.bias": torch.arange(3.0),
    "adam.step.weight": torch.tensor(7.0),
    "counts": torch.tensor([2**40 + 1]),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with checkpoints of steps 10 and 20."""
    save_checkpoint(tmp_path, 10, TENSORS)
    save_checkpoint(tmp_path, 20, TENSORS)
    return tmp_path


class Payload:
    """A pickle that makes a file when it is loaded."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[object, tuple[str, int]]:
        return os.mkdir, (str(self.trace), 0o700)


def test_it_comes_back_as_it_was(folder: Path) -> None:
    checkpoint = load_checkpoint(folder / "00000020.safetensors")
    assert checkpoint.step == 20
    assert_same_bits(checkpoint.tensors, TENSORS)
    assert checkpoint.weights().keys() == {"weight", "bias"}
    assert_same_bits(
        checkpoint.weights(), {"weight": TENSORS["model.weight"], "bias": TENSORS["model.bias"]}
    )


def test_only_the_last_two_are_kept(tmp_path: Path) -> None:
    for step in (0, 5, 7, 100_000_000):
        save_checkpoint(tmp_path, step, TENSORS)
        assert len(list(tmp_path.iterdir())) == 2 * min(2, len(saved_steps(tmp_path)))
    assert saved_steps(tmp_path) == [7, 100_000_000]
    newest, _ = newest_checkpoint(tmp_path)
    assert newest is not None
    assert newest.step == 100_000_000


def test_every_cut_and_every_flipped_bit_is_refused(folder: Path) -> None:
    path = folder / "00000020.safetensors"
    content = path.read_bytes()
    damaged = [content[:length] for length in range(0, len(content), 5)] + [content + b"\0"]
    for position in range(0, len(content), 3):
        flipped = content[position] ^ 1 << position % 8
        damaged.append(content[:position] + bytes([flipped]) + content[position + 1 :])
    for changed in damaged:
        path.write_bytes(changed)
        with pytest.raises(CheckpointError, match=str(path)):
            load_checkpoint(path)
    path.write_bytes(content)
    path.with_suffix(".json").write_text("[1]")
    with pytest.raises(CheckpointError, match=r"00000020\.json is damaged"):
        load_checkpoint(path)


def test_a_pickle_is_refused_and_nothing_run(folder: Path) -> None:
    """Not even where whoever put it there made the checksum fit."""
    trace, path = folder / "trace", folder / "00000020.safetensors"
    content = pickle.dumps(Payload(trace))
    path.write_bytes(content)
    facts = json.loads(path.with_suffix(".json").read_text())
    del facts["checksum"]
    facts["sha256"] = hashlib.sha256(content).hexdigest()
    facts["checksum"] = checksum_of(facts)
    path.with_suffix(".json").write_text(json.dumps(facts))
    with pytest.raises(CheckpointError, match="is not a safetensors file"):
        load_checkpoint(path)
    assert not trace.exists()


def test_a_write_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a full disk, which is often found only when the data is forced out."""
    path = tmp_path / "file"
    write_bytes(path, b"old")

    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            write_bytes(path, b"newer")
    assert path.read_bytes() == b"old"
    write_bytes(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


_STEPS = (0, 3, 20, 60)


def _with(folder: Path, snapshots: tuple[int, ...] = _STEPS, **training: object) -> Config:
    return tiny(folder, snapshots=snapshots, **training)


def test_snapshot_is_the_run_as_it_was(tmp_path: Path) -> None:
    config = _with(tmp_path / "a", ema_decay=0.9)
    kept = snapshots_of(train(config).path)
    assert list(kept) == list(_STEPS)
    for step in (3, 20):
        interrupted(paused := tiny(tmp_path / str(step), ema_decay=0.9), step - 1)
        run, other = load_run(kept[step]), load_run(run_folder(paused).path)
        assert run.step == other.step == step
        assert_same_bits(run.model.state_dict(), other.model.state_dict())


def test_killed_run_has_all_snapshots(tmp_path: Path) -> None:
    config = _with(tmp_path / "a")
    crashed(config, 23)
    path = train(config).path
    whole = train(_with(tmp_path / "b")).path
    for ours, theirs in zip(snapshots_of(path).values(), snapshots_of(whole).values(), strict=True):
        assert_same_bits(load_run(ours).model.state_dict(), load_run(theirs).model.state_dict())


def test_again_begins_an_unfinished_run_without_its_snapshots(tmp_path: Path) -> None:
    interrupted(tiny(tmp_path), 24)
    assert list(snapshots_of(train(_with(tmp_path), again=True).path)) == list(_STEPS)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def _lose_json(path: Path) -> None:
    """As if it had been killed before the JSON was written: nothing to complain of."""
    path.with_suffix(".json").unlink()


def _finished(folder: Path) -> tuple[Config, Path]:
    """A finished run and the folder of its checkpoints, of steps 50 and 60."""
    config = tiny(folder)
    train(config)
    checkpoints = run_folder(config).checkpoints
    assert saved_steps(checkpoints) == [50, 60]
    return config, checkpoints


@pytest.mark.parametrize("damage", [_cut, Path.unlink, _lose_json])
def test_the_one_before_is_used(
    damage: Callable[[Path], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, checkpoints = _finished(tmp_path)
    undisturbed = saved_tensors(config)
    damage(checkpoints / "00000060.safetensors")
    assert load_run(run_folder(config).path).step == 50
    capsys.readouterr()
    train(config)
    said = str(checkpoints / "00000060") in capsys.readouterr().out
    assert said == (damage is not _lose_json)
    assert_same_bits(saved_tensors(config), undisturbed)


def test_all_damaged(tmp_path: Path) -> None:
    """Reading refuses and names both; training begins anew and ends as before. What is saved on the
    new way counts, though the damaged ones are of later steps."""
    config, checkpoints = _finished(tmp_path)
    undisturbed = saved_tensors(config)
    for step in (50, 60):
        _cut(checkpoints / f"{step:08d}.safetensors")
    path = run_folder(config).path
    with pytest.raises(RunError, match=f"{path} has no checkpoint that can be read") as refused:
        load_run(path)
    for step in (50, 60):
        assert str(checkpoints / f"{step:08d}") in str(refused.value)
    assert "saved after step 5" in str(interrupted(config, 4))
    assert load_run(path).step == 5
    train(config)
    assert_same_bits(saved_tensors(config), undisturbed)
