"""Rows of real tables with two classes: train on all tables but one, evaluate on that one.

task = make_task("tables", dims=14, settings={"held_out": "wind"})   # of openml_data/*.npz
prompts = task.sample(torch.Generator().manual_seed(0), batch=32, points=41)
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from looplab.conf.mistakes import ConfigError, RunError, check_choice

from .data import Data
from .random_source import RandomSource
from .table_rows import TEN, Rows, distinct, load_rows, standardised, table_sizes, tables_digest
from .task import Classification, Prompts, RowsOnly, Task, register_task

# Upper bounds of `kind`: the table's own class, a column, else a halfspace.
_TABLE_CLASS = 1 / 3
_COLUMN = 2 / 3
# The reference's split of each table.
_TEST_SHARE = 0.05
_SPLIT_SEED = 2021


@dataclass(frozen=True)
class _TableTask(RowsOnly, Classification):
    """The base class of the tasks with the rows for training and for evaluation."""

    data_dir: str = "openml_data"  # NAME.npz: xs [rows, features], ys [rows] of 0 and 1
    tables: tuple[str, ...] = TEN
    held_out: str = "abalone"
    protocol: Literal["corrected", "reference"] = "corrected"

    left_padded = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("protocol", self.protocol, ("corrected", "reference"))
        if self.held_out and self.held_out not in self.tables:
            names = ", ".join(self.tables)
            raise ConfigError("held_out", f"is {self.held_out!r}, none of the tables: {names}")
        if not self._training_tables():
            raise ConfigError("tables", "must hold one to train on, beside held_out")
        if self.protocol == "reference" and not self.held_out:
            problem = "must name a table where protocol is reference: evaluation draws from it"
            raise ConfigError("held_out", problem)

    @property
    def labels(self) -> tuple[float, float]:
        return (0.0, 1.0) if self.protocol == "reference" else super().labels

    @property
    def data(self) -> Data:
        return _Tables(self)

    def _training_tables(self) -> tuple[str, ...]:
        return tuple(name for name in self.tables if name != self.held_out)

    def _tokens(self, classes: Tensor) -> Tensor:
        zero, one = self.labels
        return torch.where(classes > 0, one, zero).float()

    def _pad(self, xs: Tensor) -> Tensor:
        """Inputs with the features in the last dimensions, as in the reference."""
        return torch.nn.functional.pad(xs, (self.dims - xs.shape[-1], 0))


class _Tables(Data):
    """The files of the tables."""

    def __init__(self, task: _TableTask) -> None:
        self.task = task

    def paths(self) -> dict[str, str]:
        return {"data_dir": self.task.data_dir}

    def identity(self) -> dict[str, str]:
        task = self.task
        needed = task.held_out or task.tables[0]
        return {"tables": tables_digest(task.data_dir, task.tables, needed)}

    def check(self, points: int = 2) -> None:
        for name, (_, features) in table_sizes(self.task.data_dir, self.task.tables).items():
            if features > self.task.dims:
                raise RunError(
                    f"{name} has {features} features, more than the {self.task.dims} that the "
                    f"model reads: task.dims={features}"
                )


@dataclass(frozen=True)
class _Choice:
    """The choices of each prompt: its table [B]; the order of the columns, and their signs [B,
    width]; the kind of class [B]; a halfspace's weights [B, width]; whether labels are swapped [B];
    the column in each dimension [B, dims]."""

    table: Tensor
    order: Tensor
    sign: Tensor
    kind: Tensor
    weights: Tensor
    swapped: Tensor
    place: Tensor


@register_task("tables")
@dataclass(frozen=True)
class Tables(_TableTask):
    """Prompts of rows of every table but `held_out`.

    With `protocol` corrected, a prompt's inputs are standardised by its own context, and a model
    cannot memorise a table: columns have random places among the first `dims` dimensions and random
    signs, and labels are swapped at random. While a curriculum shows fewer dimensions than a table
    has features, the class is a random halfspace of the visible ones through the context's mean.
    From then on it is, with equal probability, the table's own; whether one of the columns, which
    then is hidden, lies above its mean; or a halfspace. (In nine of the ten published tables the
    class is a column cut at its mean.)

    With `protocol` reference, as in the reference code: tables standardised by all of their rows, a
    twentieth of them left out, one table per batch, labels 0 and 1, never swapped.

    Without `held_out`, which corrected alone allows, all tables are trained on, and evaluation has
    the prompts of training.
    """

    def for_evaluation(self) -> Task:
        settings = vars(self) | {"distinct_prompts": 0, "distinct_functions": 0}
        return HeldOut(**settings) if self.held_out else Tables(**settings)

    def parameters(self, random: RandomSource, dims: int) -> _Choice | Tensor:
        device = random.uniform(1).device
        rows = self._rows(device)
        tables = len(rows.count)
        width = rows.xs.shape[1]
        table = (random.uniform(1)[:, 0] * tables).long()
        if self.protocol == "reference":
            # One table a batch; the other draws are unused.
            return table[:1].expand(len(table))
        # A table's columns first, in random order; then the empty ones.
        # Packed rows have the features last (table_rows.py): the places before them are empty.
        empty = torch.arange(width, 0, -1, device=device) > rows.features[table][:, None]
        order = (random.uniform(width) + empty).argsort(1)
        visible = torch.arange(width, device=device) < dims
        # Drawn in this order: it is that of the seed's numbers.
        sign = torch.where(random.uniform(width) < 0.5, -1.0, 1.0).float()
        kind = _kind(random.uniform(1)[:, 0], rows.features[table], dims)
        weights = random.normal(width) * visible
        swapped = random.uniform(1)[:, 0] < 0.5
        column_order = random.uniform(self.dims)[:, :dims].argsort(1)
        return _Choice(table, order, sign, kind, weights, swapped, column_order)

    def prompts(self, parameters: Any, random: RandomSource, points: int, dims: int) -> Prompts:
        if self.protocol == "reference":
            return self._reference_prompts(parameters, random, points)
        choice: _Choice = parameters
        xs, table_classes = _draw_rows(
            self._rows(choice.table.device), choice.table, random, points
        )
        order = choice.order[:, None, :].expand_as(xs)
        xs = standardised(xs).gather(2, order) * choice.sign[:, None, :]
        by_column = (choice.kind >= _TABLE_CLASS) & (choice.kind < _COLUMN)
        # The first column is random by `order`; 0 is the context's mean of standardised inputs.
        column = xs[:, :, 0] > 0
        xs[:, :, 0] = xs[:, :, 0].masked_fill(by_column[:, None], 0.0)
        halfspace = (xs * choice.weights[:, None, :]).sum(2) > 0
        classes = torch.where(by_column[:, None], column, halfspace)
        classes = torch.where(choice.kind[:, None] < _TABLE_CLASS, table_classes > 0, classes)
        return Prompts(
            self._place_columns(xs, choice.place, dims),
            self._tokens(classes ^ choice.swapped[:, None]),
        )

    def _place_columns(self, xs: Tensor, place: Tensor, dims: int) -> Tensor:
        """The first `dims` columns of xs [B, n, width], in their places among the first `dims`
        dimensions; [B, n, self.dims]."""
        pad = torch.nn.functional.pad
        # As many columns as visible dimensions: zeros where the table has fewer.
        columns = pad(xs, (0, max(0, dims - xs.shape[2])))[:, :, :dims]
        columns = columns.gather(2, place[:, None, :].expand_as(columns))
        return pad(columns, (0, self.dims - dims))

    def _reference_prompts(self, table: Tensor, random: RandomSource, points: int) -> Prompts:
        """Prompts of one table, without repeated rows in the batch."""
        rows = self._rows(table.device)
        batch = len(table)
        total = len(rows.xs)
        if batch * points > rows.fewest:
            raise ConfigError(
                "training.batch_size",
                f"is {batch}, which takes {batch * points} rows of one table, and one has "
                f"{rows.fewest} rows",
            )
        # Every number gets a random key; numbers beyond this table's rows come last.
        # Rounded up: a source draws per prompt, and together these are at least one number a row.
        keys = random.uniform(-(-total // batch)).flatten()[:total]
        absent = torch.arange(total, device=keys.device) >= rows.count[table[:1]]
        numbers = (keys + absent).argsort()[: batch * points]
        index = rows.first[table[:1]] + numbers.view(batch, points)
        return Prompts(self._pad(rows.xs[index]), self._tokens(rows.classes[index]))

    def _rows(self, device: torch.device) -> Rows:
        part = _train_rows if self.protocol == "reference" else None
        return load_rows(self.data_dir, self._training_tables(), device, part)


@dataclass(frozen=True)
class HeldOut(_TableTask):
    """Prompts of the rows of the one table that `Tables` of the same settings leaves out: its own
    classes, its features in their order in the last dimensions.

    With `protocol` corrected, inputs are standardised by the context and half of the prompts have
    their labels swapped; with `protocol` reference, the rows are those of the reference's test set.
    """

    name = Tables.name

    def parameters(self, random: RandomSource, dims: int) -> Tensor:
        swapped = random.uniform(1)[:, 0] < 0.5
        return swapped & (self.protocol == "corrected")

    def prompts(self, parameters: Any, random: RandomSource, points: int, dims: int) -> Prompts:
        part = _test_rows if self.protocol == "reference" else None
        name = self.held_out
        rows = load_rows(self.data_dir, (name,), parameters.device, part)
        table = torch.zeros_like(parameters, dtype=torch.int64)
        xs, classes = _draw_rows(rows, table, random, points)
        if self.protocol == "corrected":
            xs = standardised(xs)
        return Prompts(self._pad(xs), self._tokens((classes > 0) ^ parameters[:, None]))


def _kind(uniform: Tensor, features: Tensor, dims: int) -> Tensor:
    """The numbers of `_Choice.kind` [B]: 2 unless all features are visible, and a table's only
    column is never the class."""
    single_column = (features == 1) & (uniform >= _TABLE_CLASS)
    return torch.where((features > dims) | single_column, 2.0, uniform)


def _draw_rows(
    rows: Rows, table: Tensor, random: RandomSource, points: int
) -> tuple[Tensor, Tensor]:
    """Sample `points` rows of each prompt's table: inputs [B, n, width] and classes [B, n]."""
    if points > rows.fewest:
        raise ConfigError("task.points", f"is {points}, and a table has {rows.fewest} rows")
    index = rows.first[table][:, None] + distinct(random, rows.count[table], points)
    return rows.xs[index], rows.classes[index]


def reference_split(rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The numbers of a table's rows that the reference code trains on, and of those it tests on."""
    from sklearn.model_selection import train_test_split

    train, test = train_test_split(np.arange(rows), test_size=_TEST_SHARE, random_state=_SPLIT_SEED)
    return train, test


def _train_rows(rows: int) -> NDArray[np.int64]:
    return reference_split(rows)[0]


def _test_rows(rows: int) -> NDArray[np.int64]:
    return reference_split(rows)[1]
