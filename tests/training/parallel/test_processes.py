"""Several processes end with the weights of one, bit for bit, however often they are stopped; what
goes wrong in one of them ends all, and one of them says it."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reloop.conf.schema import Config, LoopsConfig, ModelConfig, TaskConfig
from reloop.training import train
from reloop.training.run_folder.checkpoint import saved_steps
from reloop.training.run_folder.run import run_folder
from tests.training.parallel.ranks import Ended, Job, in_processes
from tests.training.tiny import assert_same_bits, saved_tensors, tiny

_VARIANTS: dict[str, dict[str, Any]] = {
    "adamw": {"training": {"clip": 0.5, "weight_decay": 0.1}},
    "muon": {"training": {"optimizer": "muon", "ema_decay": 0.9, "clip": 0.5}},
    "norms": {"training": {"log_norms": True}},
    "jacobian": {"training": {"jacobian_penalty": 0.1}},
    "drawn": {"loops": LoopsConfig(4, 2, "half", "poisson_lognormal")},
    "text": {
        "task": TaskConfig("language", dims=1, points=6),
        "model": ModelConfig("looped", 1, 16, 2, 6),
    },
    "standard": {"model": ModelConfig("standard", 2, 16, 2, 5, injection="none")},
}


def _variant(name: str, folder: Path, shards: int = 2) -> Config:
    changes = dict(_VARIANTS[name])
    config = tiny(folder / name, shards=shards, **changes.pop("training", {}))
    return replace(config, **changes)


def test_two_processes(tmp_path: Path) -> None:
    """All at once, since what they do takes less time than to start them."""
    settings: dict[str, Any] = {"shards": 2, "checkpoint_every": 20}
    undisturbed, stopped = (_variant(name, tmp_path / "two") for name in ("adamw", "muon"))
    rolled = tiny(tmp_path / "rolled", on_divergence="rollback", ema_decay=0.9, **settings)
    diverged, spoilt, held, absent = (
        tiny(tmp_path / name, **settings) for name in ("diverged", "spoilt", "held", "absent")
    )
    with run_folder(held).lock():
        done = in_processes(
            [
                Job(2, undisturbed),
                Job(2, stopped, at=23, rank=1, what=signal.SIGKILL),
                Job(2, stopped, at=31, rank=1, what=signal.SIGTERM),
                Job(2, rolled, at=23, what="nan"),
                Job(2, diverged, at=23, what="nan"),
                Job(2, spoilt, at=33, rank=1, what="spoil"),
                Job(2, held),
                Job(2, replace(absent, device="cuda")),
            ]
        )
    assert [ended.codes for ended in done[:4]] == [
        *([0, 0], [1, -signal.SIGKILL], [143, 143], [0, 0])
    ]
    assert done[1].said[0] == "another process of torchrun ended; the last checkpoint is of step 20"
    status = run_folder(stopped).status()
    assert (status["state"], status["step"]) == ("interrupted", 32)  # all hear of it a step later
    train(stopped)  # by one process
    _check_as_alone(tmp_path, undisturbed, stopped)
    assert float(saved_tensors(rolled)["rate_factor"]) == 0.5
    assert "gave a loss or gradient that is not finite" in _said_once(done[4])
    assert run_folder(diverged).status()["state"] == "failed"
    apart = _said_once(done[5])
    assert "the processes have come apart" in apart
    assert "the last checkpoint is of step 20" in apart
    assert saved_steps(run_folder(spoilt).checkpoints) == [0, 20]
    assert "is being worked on by process" in _said_once(done[6])
    assert "device cannot be 'cuda'" in _said_once(done[7])
    assert not Path(absent.folder).exists()


def _check_as_alone(folder: Path, undisturbed: Config, stopped: Config) -> None:
    for name, config in (("adamw", undisturbed), ("muon", stopped)):
        alone = _variant(name, folder / "alone")
        train(alone)
        assert_same_bits(saved_tensors(config), saved_tensors(alone))
        (path,) = Path(config.folder).iterdir()
        records = map(json.loads, (path / "metrics.jsonl").read_text().splitlines())
        extra = [32] if config is stopped else []
        assert [each["step"] for each in records] == sorted([*range(5, 65, 5), *extra])


def _said_once(ended: Ended) -> str:
    """What one of the processes said as its error; the others were silent."""
    (said,) = filter(None, ended.said)
    assert 0 not in ended.codes
    return said


@pytest.mark.slow
@pytest.mark.parametrize("name", _VARIANTS)
def test_any_number_of_processes(name: str, tmp_path: Path) -> None:
    """Four shards by one, two and four, and by each of them in turn."""
    whole = {size: _variant(name, tmp_path / f"{size}", shards=4) for size in (1, 2, 4)}
    mixed = _variant(name, tmp_path / "mixed", shards=4)
    train(whole[1])
    done = in_processes(
        [
            Job(2, whole[2]),
            Job(4, whole[4]),
            Job(4, mixed, at=14, rank=2, what=signal.SIGKILL),
            Job(2, mixed, at=32, rank=1, what=signal.SIGINT),
            Job(1, mixed, at=43, rank=0, what=signal.SIGKILL),
            Job(4, mixed),
        ]
    )
    assert [ended.codes for ended in done[:2]] == [[0, 0], [0, 0, 0, 0]]
    assert sorted(done[2].codes) == [-signal.SIGKILL, 1, 3, 3]
    assert done[3].codes == [130, 130]
    assert done[5].codes == [0, 0, 0, 0]
    for config in (whole[2], whole[4], mixed):
        assert_same_bits(saved_tensors(config), saved_tensors(whole[1]))
