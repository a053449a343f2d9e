"""Several processes end with the weights of one to 1e-6, however often they are stopped; what goes
wrong in one of them ends all, and one of them says it. Under torchrun, too.

As a program it does the jobs that it reads from stdin, one after another: each is a training by
processes that are forked from this one, which has imported torch.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

import looplab.training.processes  # noqa: F401  what takes long to import, before the first fork
from looplab.conf.build import config_from_mapping, config_to_mapping
from looplab.conf.mistakes import EndedElsewhere
from looplab.conf.schema import Config, LoopsConfig, ModelConfig, TaskConfig
from looplab.training import Interrupted, RunError, train
from looplab.training.run_folder.run import run_folder
from looplab.training.step import Trainer
from tests.conftest import HOME, printed
from tests.training.tiny import tiny

_FAILED, _ELSEWHERE, _BROKEN = 1, 3, 4


@dataclass(frozen=True)
class Job:
    """A training by `size` processes. After `at` steps process `rank` does `what`: a signal to
    itself by number, or "nan" a weight in all."""

    size: int
    config: Config
    at: int = -1
    rank: int = 0
    what: int | str = 0


@dataclass(frozen=True)
class Ended:
    """The exit codes by rank (of RunErrors 1, of those silent for another's 3), and what they said
    as their error."""

    codes: list[int]
    said: list[str]


def in_processes(jobs: Sequence[Job]) -> list[Ended]:
    """Do these jobs."""
    given = [asdict(job) | {"config": config_to_mapping(job.config)} for job in jobs]
    done = subprocess.run(
        [sys.executable, "-m", "tests.training.test_processes"],
        input=json.dumps(given),
        cwd=HOME,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return [Ended(**json.loads(line)) for line in done.stdout.splitlines()]


def _do(job: Job) -> dict[str, Any]:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, str(rank)) for rank in range(job.size)]
        children = [_fork(job, rank, port, file) for rank, file in enumerate(files)]
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        return {"codes": codes, "said": [file.read_text() for file in files]}


def _fork(job: Job, rank: int, port: int, said: Path) -> int:
    if child := os.fork():
        return child
    try:
        sys.stdout, sys.stderr = open(os.devnull, "w"), open(said, "w")  # noqa: SIM115
        place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": job.size, "MASTER_PORT": port}
        os.environ |= {name: str(value) for name, value in place.items()}
        os.environ["MASTER_ADDR"] = "localhost"
        code = _train(job, rank)
        sys.stderr.flush()
    finally:
        os._exit(code)


def _train(job: Job, rank: int) -> int:
    update = Trainer.update

    def wrapped(self: Trainer, step: int) -> None:
        update(self, step)
        if step + 1 == job.at:
            _act(job, rank, self)

    Trainer.update = wrapped  # type: ignore[method-assign]
    try:
        train(job.config)
    except Interrupted as stop:
        return stop.exit_code
    except EndedElsewhere:
        return _ELSEWHERE
    except RunError as error:
        print(error, end="", file=sys.stderr)
        return _FAILED
    except BaseException as error:
        print(repr(error), end="", file=sys.stderr)
        return _BROKEN
    return 0


def _act(job: Job, rank: int, trainer: Trainer) -> None:
    weight = trainer.parameters[0].data
    if job.what == "nan":
        weight.view(-1)[0] = float("nan")
    if rank != job.rank:
        return
    if isinstance(job.what, int) and job.what:
        os.kill(os.getpid(), job.what)


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


if __name__ == "__main__":
    signal.alarm(280)  # nobody is left behind
    torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))])  # imports more
    for each in json.load(sys.stdin):
        config = config_from_mapping(each.pop("config"))
        print(json.dumps(_do(Job(config=config, **each))), flush=True)
