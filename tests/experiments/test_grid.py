"""Cells: found when they are done, gone on with when they are not, apart where settings differ."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from reloop.conf.mistakes import RunError
from reloop.conf.schema import (
    Config,
    EvaluationConfig,
    LoopsConfig,
    ModelConfig,
    TaskConfig,
    TrainingConfig,
)
from reloop.experiments import grid as cells
from reloop.experiments.grid import Cell, run_cells
from reloop.training import Interrupted
from reloop.training.population.trainer import BatchedTrainer

CONFIG = Config(
    task=TaskConfig("linear", dims=2, points=4),
    model=ModelConfig(n_embd=8, n_head=2, n_positions=4, injection="none", norm="at_readout"),
    loops=LoopsConfig(b=2, T=1, grad_loops="all"),
    training=TrainingConfig(steps=6, batch_size=8),
    evaluation=EvaluationConfig(prompts=16),
)


@pytest.fixture
def cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cell:
    monkeypatch.setattr(cells, "_SAVED_EVERY", 2)
    return Cell("two loops", CONFIG, (1e-3, 1e-2), (0, 1, 2), tmp_path)


def counted(
    monkeypatch: pytest.MonkeyPatch, at: Mapping[int, Callable[[], None]] | None = None
) -> list[int]:
    """The steps that are made from here on; what is done before some of them."""
    made: list[int] = []
    update = BatchedTrainer.update

    def counting(trainer: BatchedTrainer, step: int) -> None:
        if at and step in at:
            at[step]()
        made.append(step)
        update(trainer, step)

    monkeypatch.setattr(BatchedTrainer, "update", counting)
    return made


def fail() -> None:
    raise RuntimeError("out of memory")


def test_a_cell_holds_errors_and_readings_by_rate_and_seed(cell: Cell) -> None:
    found = cell()
    trainer = BatchedTrainer(CONFIG, cell.rates, cell.seeds)
    prompts = trainer.task.sample(torch.Generator().manual_seed(2024), 16, 4)
    initial = trainer.errors(prompts).view(2, 3).tolist()
    for step in range(6):
        trainer.update(step)
    assert found == {"errors": trainer.errors(prompts).view(2, 3).tolist(), "initial": initial}
    readings = cell.readings()
    for i in range(2):
        for j in range(3):
            expected = trainer.reading("loss")[:, 3 * i + j].double().numpy()
            np.testing.assert_array_equal(readings["loss"][:, i, j], expected)


def test_a_finished_cell_is_found(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    found = cell()
    made = counted(monkeypatch)
    assert replace(cell, name="of another name")() == found
    assert made == []


def test_a_cell_goes_on_where_it_was_stopped(
    cell: Cell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    whole = replace(cell, folder=tmp_path / "whole")()
    with monkeypatch.context() as patch:
        counted(patch, at={5: fail})
        with pytest.raises(RuntimeError, match="out of memory"):
            cell()
    made = counted(monkeypatch)
    assert cell() == whole
    assert made == [4, 5]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_lets_the_step_end_and_saves_it(
    number: int, code: int, cell: Cell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    whole = replace(cell, folder=tmp_path / "whole")()
    with monkeypatch.context() as patch:
        made = counted(patch, at={2: lambda: os.kill(os.getpid(), number)})
        with pytest.raises(Interrupted, match="saved after step 3") as stop:
            cell()
    assert stop.value.exit_code == code
    assert made == [0, 1, 2]
    made = counted(monkeypatch)
    assert cell() == whole
    assert made == [3, 4, 5]


def test_a_damaged_checkpoint_is_not_gone_on_from(
    cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = cell()
    for path in (cell.path / "checkpoints").glob("*6.safetensors"):
        path.write_bytes(b"nonsense")
    made = counted(monkeypatch)
    assert cell() == found
    assert made == [4, 5]


def test_what_bears_on_a_cell_makes_another(cell: Cell) -> None:
    others = [
        replace(cell, rates=(1e-3, 2e-2)),
        replace(cell, seeds=(0, 1, 3)),
        replace(cell, config=replace(CONFIG, loops=replace(CONFIG.loops, b=3))),
        replace(cell, config=replace(CONFIG, training=replace(CONFIG.training, steps=7))),
        replace(cell, config=replace(CONFIG, training=replace(CONFIG.training, clip=1.0))),
        replace(cell, config=replace(CONFIG, model=replace(CONFIG.model, n_embd=16))),
        replace(cell, config=replace(CONFIG, model=replace(CONFIG.model, residual_scaling="sqrt"))),
        replace(cell, config=replace(CONFIG, evaluation=replace(CONFIG.evaluation, prompts=17))),
    ]
    assert len({each.path for each in (cell, *others)}) == len(others) + 1
    assert replace(cell, name="of another name").path == cell.path
    assert replace(cell, config=replace(CONFIG, seed=7)).path == cell.path  # seeds are the cell's


def test_an_error_that_is_not_finite_is_none(cell: Cell) -> None:
    found = replace(cell, rates=(1e-3, 1e30))()
    assert all(error is not None for error in found["errors"][0])
    assert found["errors"][1] == [None, None, None]
    assert cell.describe(found).startswith("least error")
    assert cell.describe({"errors": [[None]]}) == "every member diverged"


def test_cells_come_back_in_their_order(cell: Cell, tmp_path: Path) -> None:
    """Whatever order they are computed in."""
    more = replace(cell, config=replace(CONFIG, loops=replace(CONFIG.loops, b=4)))
    found = run_cells([cell, more], 1, tmp_path / "logs")
    assert found == [cell(), more()]
    assert found[0] != found[1]


def test_a_cell_that_fails_is_named(cell: Cell, tmp_path: Path) -> None:
    wrong = replace(CONFIG, training=replace(CONFIG.training, shards=2))
    with pytest.raises(RunError, match=r"wrong one: .*neither weight decay nor shards"):
        run_cells([cell, replace(cell, name="wrong one", config=wrong)], 1, tmp_path / "logs")
