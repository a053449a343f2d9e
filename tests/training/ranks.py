"""Trainings by several processes each, forked from one that has imported torch.

    (ended,) = in_processes([Job(2, config)])
    assert ended.codes == [0, 0]

As a program it does the jobs that it reads from stdin, one after another.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

import looplab.training.processes  # noqa: F401  what takes long to import, before the first fork
from looplab.conf.build import config_from_mapping, config_to_mapping
from looplab.conf.mistakes import EndedElsewhere
from looplab.conf.schema import Config
from looplab.training import Interrupted, RunError, train
from looplab.training.step import Trainer
from tests.conftest import HOME

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
        [sys.executable, "-m", "tests.training.ranks"],
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


if __name__ == "__main__":
    signal.alarm(280)  # nobody is left behind
    torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))])  # imports more
    for each in json.load(sys.stdin):
        config = config_from_mapping(each.pop("config"))
        print(json.dumps(_do(Job(config=config, **each))), flush=True)
