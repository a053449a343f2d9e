"""Small tables, run folders as far as estimators read them, no network, and words of a command.

Of the runs' tasks only the words on prompts matter: labels, padding, divisor.
"""

import hashlib
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from looplab.conf.schema import Config, LoopsConfig, ModelConfig, TaskConfig
from looplab.models import Model
from looplab.openml_eval.tables import Source, Table, write_table
from looplab.training.assemble import build_model, build_task
from looplab.training.run_folder.checkpoint import save_checkpoint
from looplab.training.run_folder.run import RunFolder

Floats = NDArray[np.float64]


def table(rows: int, features: int, seed: int = 0) -> tuple[Floats, Floats]:
    """Rows X [rows, features] of different means and spreads, and a noisy linear function."""
    random = np.random.default_rng(seed)
    standard = random.normal(size=(rows, features))
    y = standard @ random.normal(size=features) + 0.1 * random.normal(size=rows)
    spreads = 10.0 ** np.linspace(-2, 3, features)
    return standard * spreads + 3 * spreads, 7 + 20 * y


def halves(rows: int, features: int, seed: int = 0) -> tuple[Floats, NDArray[np.int64]]:
    """The same with labels: 1 where the function is above its median."""
    X, y = table(rows, features, seed)
    return X, (y > np.median(y)).astype(np.int64)


DIMS, POINTS, B = 6, 11, 4  # of `write_restless`


def make_model(config: Config) -> Model:
    """A fresh model of a configuration."""
    return build_model(config, build_task(config))


def write_run(folder: Path, config: Config, model: Model, step: int = 0) -> Path:
    """A run folder with this model as its newest checkpoint."""
    RunFolder(folder).create(config)
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    save_checkpoint(folder / "checkpoints", step, tensors)
    return folder


def write_restless(folder: Path, classes: int, step: int = 0) -> Path:
    """A model whose weights are noise, of its step."""
    config = Config(
        task=TaskConfig("halfspaces" if classes else "linear", dims=DIMS, points=POINTS),
        model=ModelConfig("looped", 1, 16, 2, POINTS + 2, "add"),
        loops=LoopsConfig(B, 2),
    )
    return write_run(folder, config, restless(make_model(config), step), step)


@torch.no_grad()
def restless(model: Model, seed: int) -> Model:
    """The model with noise added to its weights: no two of its answers are alike, and they move
    from loop to loop."""
    source = torch.Generator().manual_seed(seed)
    for weights in model.parameters():
        weights.add_(0.3 * torch.randn(weights.shape, generator=source))
    return model


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`classifier` and `regressor`, looped models of noise with checkpoints of steps 1 and 2.
    Nobody writes in them."""
    folder = tmp_path_factory.mktemp("runs")
    for name, classes in (("classifier", 2), ("regressor", 0)):
        for step in (1, 2):
            write_restless(folder / name, classes, step)
    return folder


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every attempt to connect, or to find an address, fails and is listed here."""
    attempts: list[str] = []

    def refuse(*words: Any, **_: Any) -> None:
        attempts.append(str(words))
        raise OSError("no network")

    for owner, name, value in (
        (socket.socket, "connect", refuse),
        (socket.socket, "connect_ex", refuse),
        (socket, "getaddrinfo", refuse),
    ):
        monkeypatch.setattr(owner, name, value)
    return attempts


def contents(folder: Path) -> dict[str, tuple[str, int]]:
    """Every file in a folder: its sha256 and when it was last written."""
    return {
        str(path.relative_to(folder)): (
            hashlib.sha256(path.read_bytes()).hexdigest(),
            path.stat().st_mtime_ns,
        )
        for path in folder.rglob("*")
        if path.is_file()
    }


ROWS = {"abalone": (720, 90), "second": (8, 110), "third": (None, 70)}


def write_tables(folder: Path) -> Path:
    """Tables whose every value is one row's alone: x0 is the row's number plus the table's own
    thousand."""
    folder.mkdir(exist_ok=True)
    for index, (name, (openml_id, rows)) in enumerate(ROWS.items()):
        xs, ys = halves(rows, 2, seed=index)
        xs[:, 0] = 1000 * (index + 1) + np.arange(rows)
        origin = Source(openml_id=openml_id, url=name, notes=(f"a note on {name}",))
        write_table(folder, Table(name, ("x0", "x1"), xs, ys, ("no", "yes"), origin))
    return folder


def words(data: Path, runs: Path, *more: str) -> list[str]:
    """Of `python -m openml_eval`."""
    return [
        *(f"data_dir={data}", "tables=[720,8,third]", f"folder={runs}", "contexts=3"),
        *("task.dims=3", "task.points=9", "model.n_embd=16", "model.n_head=2"),
        *("training.steps=6", "training.batch_size=4", "training.warmup=2"),
        *("evaluation.resamples=50", *more),
    ]
