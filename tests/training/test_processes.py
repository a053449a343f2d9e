"""Several processes end with the weights of one to 1e-6, however often they are stopped; what goes
wrong in one of them ends all, and one of them says it. Under torchrun, too."""

import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from looplab.conf.schema import Config, LoopsConfig, ModelConfig, TaskConfig
from looplab.training import train
from looplab.training.run_folder.run import run_folder
from tests.conftest import printed
from tests.training.ranks import Ended, Job, in_processes
from tests.training.tiny import tiny

_VARIANTS: dict[str, dict[str, Any]] = {
    "adamw": {"training": {"clip": 0.5, "weight_decay": 0.1}},
    "muon": {"training": {"optimizer": "muon", "ema_decay": 0.9, "clip": 0.5}},
    "zero": {"training": {"optimizer": "muon", "ema_decay": 0.9, "clip": 0.5, "zero_stage": 1}},
    "drawn": {"loops": LoopsConfig(4, 2, "half", "poisson_lognormal")},
    "text": {
        "task": TaskConfig("language", dims=1, points=6),
        "model": ModelConfig("looped", 1, 16, 2, 6),
    },
}


def _variant(name: str, folder: Path, shards: int = 2) -> Config:
    changes = dict(_VARIANTS[name])
    config = tiny(folder / name, shards=shards, **changes.pop("training", {}))
    return replace(config, **changes)


def test_two_processes(tmp_path: Path) -> None:
    """All at once, since what they do takes less time than to start them."""
    settings: dict[str, Any] = {"shards": 2, "checkpoint_every": 20}
    undisturbed, stopped = (_variant(name, tmp_path / "two") for name in ("adamw", "zero"))
    diverged, held, absent = (
        tiny(tmp_path / name, **settings) for name in ("diverged", "held", "absent")
    )
    with run_folder(held).lock():
        done = in_processes(
            [
                Job(2, undisturbed),
                Job(2, stopped, at=23, rank=1, what=signal.SIGKILL),
                Job(2, stopped, at=31, rank=1, what=signal.SIGTERM),
                Job(2, diverged, at=23, what="nan"),
                Job(2, held),
                Job(2, replace(absent, device="cuda")),
            ]
        )
    assert [ended.codes for ended in done[:3]] == [[0, 0], [1, -signal.SIGKILL], [143, 143]]
    assert done[1].said[0] == "another process of torchrun ended; the last checkpoint is intact"
    status = run_folder(stopped).status()
    assert (status["state"], status["step"]) == ("interrupted", 31)
    train(stopped)  # by one process
    _check_as_alone(tmp_path, undisturbed, stopped)
    assert "gave a loss or gradient that is not finite" in _said_once(done[3])
    assert run_folder(diverged).status()["state"] == "failed"
    assert "is being worked on by process" in _said_once(done[4])
    assert "device cannot be 'cuda'" in _said_once(done[5])
    assert not Path(absent.folder).exists()


def _check_as_alone(folder: Path, undisturbed: Config, stopped: Config) -> None:
    for name, config in (("adamw", undisturbed), ("zero", stopped)):
        alone = _variant(name, folder / "alone")
        train(alone)
        _assert_near(config, alone)
        extra = [31] if config is stopped else []
        steps = [each["step"] for each in _records(config)]
        assert steps == sorted([*range(5, 65, 5), *extra])


def _assert_near(config: Config, alone: Config) -> None:
    """The losses to 1e-6, and so were the weights that they were computed with."""
    found, wanted = ({each["step"]: each["loss"] for each in _records(c)} for c in (config, alone))
    common = (found.keys() & wanted.keys()) - {35}  # the mean since a stop at step 31 or 32
    assert {step: found[step] for step in common} == pytest.approx(
        {step: wanted[step] for step in common}, rel=1e-6
    )
    assert len(common) > 10


def _records(config: Config) -> list[dict[str, Any]]:
    lines = run_folder(config).metrics.read_text().splitlines()
    return [json.loads(line) for line in lines]


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
        _assert_near(config, whole[1])


_WORDS = (
    *("task=linear", "task.dims=2", "task.points=5", "model.n_embd=16", "model.n_head=2"),
    *("loops.b=4", "loops.T=2", "training.steps=60", "training.batch_size=8"),
    *("training.checkpoint_every=50", "training.log_every=5", "training.shards=2", "device=cpu"),
    *("evaluation.prompts=8", "evaluation.resamples=8", "evaluation.baselines=[]"),
)


@pytest.mark.slow
def test_torchrun(tmp_path: Path) -> None:
    folder, alone = (f"folder={tmp_path / name}" for name in ("two", "alone"))
    start = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "run.py")
    printed(*start, *_WORDS, folder)
    train(Config.of(*_WORDS, alone))
    _assert_near(Config.of(*_WORDS, folder), Config.of(*_WORDS, alone))
    assert run_folder(Config.of(*_WORDS, folder)).status()["state"] == "finished"
