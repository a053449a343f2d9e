"""Prompts of tables: which rows they are, what their labels are, that none of the held-out table is
among them, and tables that are absent, too wide or too short."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from scipy.optimize import linprog
from sklearn.model_selection import train_test_split
from torch import Tensor

from looplab.conf.mistakes import ConfigError, RunError
from looplab.conf.schema import Config
from looplab.evaluation.load import load_run
from looplab.show.evaluate import evaluate
from looplab.tasks import Prompts, RandomSource, table_rows, tables
from looplab.tasks.table_rows import distinct
from looplab.tasks.tables import HeldOut
from looplab.training import train
from tests.tasks.conftest import assert_frequencies, assert_same, generator
from tests.tasks.small_tables import SIZES, classes, inputs, task, write

DIMS, POINTS = 6, 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("tables"))


def standard(name: str) -> Tensor:
    """A table of mean 0 and variance 1 over all its rows, as the reference has it."""
    xs = inputs(name)
    return torch.from_numpy((xs - xs.mean(0)) / xs.std(0)).float()


def rows_of(prompts: Prompts, name: str) -> list[list[int]]:
    """Which rows of a table each prompt of protocol reference consists of; -1 for none."""
    xs = prompts.xs[:, :, -SIZES[name][1] :]
    near = (xs[:, :, None] - standard(name)).abs().amax(3) < 1e-5
    return torch.where(near.any(2), near.int().argmax(2), -1).tolist()


def columns_of(prompts: Prompts, which: int) -> Tensor:
    """A prompt's columns that are not zero, [n, features]."""
    xs = prompts.xs[which]
    return xs[:, (xs != 0).any(0)]


@pytest.mark.parametrize("protocol", ["corrected", "reference"])
def test_nothing_of_the_held_out_table_reaches_training(tmp_path: Path, protocol: Any) -> None:
    """Bit for bit the same prompts once its file is gone, which no other table's may be."""
    made = task(write(tmp_path), protocol=protocol)
    before = [made.sample(generator(seed), 10, POINTS) for seed in range(5)]
    (tmp_path / "beta.npz").unlink()
    table_rows._cached_rows.cache_clear()
    for seed, prompts in enumerate(before):
        assert_same(made.sample(generator(seed), 10, POINTS), prompts)
    (tmp_path / "alpha.npz").unlink()
    with pytest.raises(RunError, match=r"alpha\.npz"):
        made.sample(generator(), 10, POINTS)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """The rows' numbers that are drawn while a test goes on."""
    seen: list[Tensor] = []

    def spy(random: RandomSource, count: Tensor, points: int) -> Tensor:
        seen.append(distinct(random, count, points))
        return seen[-1]

    monkeypatch.setattr(tables, "distinct", spy)
    return seen


def test_prompts_hold_the_rows_that_are_drawn(folder: Path, drawn: list[Tensor]) -> None:
    """Undone by hand: columns found by where they stand, the context's scale, signs, labels."""
    made = task(folder)
    prompts, choice = made.draw(generator(), 40, 41)
    (rows,) = drawn
    names = [name for name in SIZES if name != "beta"]
    mirrored = []
    for which in range(40):
        name = names[int(choice.table[which])]
        table = inputs(name)[rows[which].numpy()]
        scaled = (table - table[:-1].mean(0)) / table[:-1].std(0)
        shown = columns_of(prompts, which).double().numpy()
        for column in shown.T:
            as_it_is = np.abs(column[:, None] - scaled).max(0).min() < 1e-4
            assert as_it_is != (np.abs(column[:, None] + scaled).max(0).min() < 1e-4)
            mirrored.append(not as_it_is)
        if choice.kind[which] < 1 / 3:
            own = classes(name)[rows[which].numpy()] == 1
            assert np.array_equal(prompts.ys[which].numpy() > 0, own ^ bool(choice.swapped[which]))
    assert 0.3 < np.mean(mirrored) < 0.7


def test_columns_stand_everywhere_among_the_visible_dims_mirrored_or_not(folder: Path) -> None:
    made = task(folder, tables=("gamma", "beta"))
    for dims in (2, 4, 6):
        prompts, choice = made.draw(generator(), 4000, 3, dims)
        assert (prompts.xs[:, :, dims:] == 0).all()
        shown = (prompts.xs != 0).any(1)
        kept = (choice.kind < 1 / 3) | (choice.kind >= 2 / 3)  # no column is the class
        assert (shown[kept].sum(1) == 2).all()
        assert_frequencies(shown[kept][:, :dims], 2 / dims)
    prompts = task(folder).sample(generator(), 300, 3, dims=1)  # of three features and of two
    assert ((prompts.xs != 0).any(1).sum(1) == 1).all()
    sign = torch.where(choice.sign > 0, 1.0, 0.0)
    assert_frequencies(sign[:, :2] > 0, 0.5)


def test_the_class_is_the_tables_own_a_column_or_a_halfspace(folder: Path) -> None:
    made = task(folder, tables=("gamma", "beta"))
    prompts, choice = made.draw(generator(), 3000, 41)
    by_column = (prompts.xs != 0).any(1).sum(1) == 1
    own = choice.kind < 1 / 3
    swapped = choice.swapped
    assert_frequencies(torch.stack((by_column, own), dim=1), 1 / 3)
    assert_frequencies(swapped[:, None], 0.5)
    ones = (prompts.ys > 0).float().mean(1)
    share = classes("gamma").mean()
    assert ones[own & ~swapped].mean() == pytest.approx(share, abs=0.02)
    assert ones[own & swapped].mean() == pytest.approx(1 - share, abs=0.02)
    assert ones[~own].mean() == pytest.approx(0.5, abs=0.02)
    assert set(prompts.ys.unique().tolist()) == {-1.0, 1.0}


def separable(prompts: Prompts, which: int) -> bool:
    """Whether a halfspace through zero has the prompt's labels."""
    signed = (columns_of(prompts, which) * prompts.ys[which][:, None]).double().numpy()
    most = linprog(np.zeros(signed.shape[1]), -signed, -np.ones(len(signed)), bounds=(None, None))
    return bool(most.success)


def test_below_its_features_a_tables_classes_are_halfspaces_of_what_is_shown(folder: Path) -> None:
    made = task(folder, tables=("alpha", "beta"), dims=6)
    prompts = made.sample(generator(), 60, 15, dims=2)
    assert all(separable(prompts, which) for which in range(60))
    full, choice = made.draw(generator(), 60, 15, dims=3)
    is_halfspace = torch.tensor([separable(full, which) for which in range(60)])
    own = choice.kind < 2 / 3
    assert not is_halfspace[own].all()
    assert is_halfspace[~own].all()


def test_evaluation_has_the_held_out_tables_rows_and_classes_in_their_order(
    folder: Path, drawn: list[Tensor]
) -> None:
    evaluated = task(folder).for_evaluation()
    assert isinstance(evaluated, HeldOut)
    prompts, swapped = evaluated.draw(generator(), 500, 41)
    assert (prompts.xs[:, :, :1] == 0).all()
    assert_frequencies(swapped[:, None], 0.5)
    rows = drawn[0].numpy()
    table = inputs("beta")[rows]
    context = table[:, :-1]
    scaled = (table - context.mean(1, keepdims=True)) / context.std(1, keepdims=True)
    np.testing.assert_allclose(prompts.xs[:, :, 1:].numpy(), scaled, atol=1e-4)
    own = (classes("beta")[rows] == 1) ^ swapped.numpy()[:, None]
    assert np.array_equal(prompts.ys.numpy(), np.where(own, 1.0, -1.0))


def split(name: str) -> tuple[set[int], set[int]]:
    """The rows of a table that the reference trains on, and the others."""
    train, test = train_test_split(range(SIZES[name][0]), test_size=0.05, random_state=2021)
    return set(train), set(test)


def test_the_reference_protocol_takes_a_batch_from_95_percent_of_one_table(folder: Path) -> None:
    made = task(folder, protocol="reference")
    seen = set()
    for seed in range(12):
        prompts, table = made.draw(generator(seed), 4, POINTS, dims=2)  # its dims are always all
        assert len(table.unique()) == 1
        name = "alpha" if (prompts.xs[:, :, -3] != 0).any() else "gamma"
        rows = np.array(rows_of(prompts, name))
        assert len(np.unique(rows)) == 4 * POINTS
        assert set(rows.flat) <= split(name)[0]
        assert (prompts.xs[:, :, : DIMS - SIZES[name][1]] == 0).all()
        assert np.array_equal(prompts.ys, classes(name)[rows])
        seen.add(name)
    assert seen == {"alpha", "gamma"}


def test_the_reference_protocol_evaluates_on_the_rest_of_its_table(folder: Path) -> None:
    made = task(folder, protocol="reference", held_out="gamma").for_evaluation()
    prompts = made.sample(generator(), 30, 5)
    rows = np.array(rows_of(prompts, "gamma"))
    assert np.array_equal(prompts.ys, classes("gamma")[rows])
    assert set(rows.flat) == split("gamma")[1]
    assert all(len(set(each)) == 5 for each in rows)


def test_more_features_or_points_than_there_is_room_for(folder: Path) -> None:
    with pytest.raises(RunError, match=r"task.dims=5"):
        task(folder, dims=4).data.check()
    task(folder, dims=5).data.check()
    for problem, made, batch, points in (
        (r"task.points is 301", task(folder), 2, 301),
        (r"task.points is 241", task(folder).for_evaluation(), 2, 241),
        (r"training.batch_size is 24", task(folder, protocol="reference"), 24, POINTS),
    ):
        with pytest.raises(ConfigError, match=problem):
            made.sample(generator(), batch, points)


def test_the_reference_protocol_needs_a_table_to_evaluate_on(folder: Path) -> None:
    with pytest.raises(ConfigError, match="held_out must name a table"):
        task(folder, protocol="reference", held_out="")


def test_a_run_finds_its_tables_from_another_folder_and_knows_when_they_are_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undrawn: dict[str, Figure]
) -> None:
    """Numbers of other tables are not put together with those of a run's own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    write(tmp_path / "data")
    words = [
        *("task=tables", "task.data_dir=data", "task.tables=[alpha,beta,gamma]"),
        *("task.held_out=beta", "model.n_embd=16", "model.n_head=2", "training.steps=2"),
        *("evaluation.prompts=8", "evaluation.resamples=5", "task.points=7", "loops.b=2"),
    ]
    run = train(Config.of(*words, "loops.T=2", f"folder={tmp_path / 'runs'}"))
    (tmp_path / "elsewhere" / "data").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "elsewhere")
    first = evaluate(load_run(run.path))
    for name in SIZES:
        np.savez(tmp_path / "data" / f"{name}.npz", xs=inputs(name)[::-1], ys=classes(name))
    again = load_run(run.path)
    second = evaluate(again, replace(again.config.evaluation, baselines=("majority",)))
    assert first["by_loop"] != second["by_loop"]
    assert any("other data" in line for line in second["remarks"])
