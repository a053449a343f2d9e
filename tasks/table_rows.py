"""Rows of stored tables on a device: packed, sampled without replacement, standardised.

rows = load_rows("openml_data", ("abalone", "wind"), "cpu")
index = distinct(random, rows.count[tables], 41)                       # [B, 41]
"""

import shlex
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from looplab.conf.mistakes import RunError, one_line

from .random_source import RandomSource

TEN = (  # the published tables, by the names that they are stored under
    "abalone",
    "bank8FM",
    "space_ga",
    "delta_ailerons",
    "kin8nm",
    "puma8NH",
    "delta_elevators",
    "wind",
    "pollen",
    "compas-two-years",
)

# The numbers of a part of the rows, from how many rows a table has.
Part = Callable[[int], NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class Rows:
    """m tables one after another. `xs` float32 [rows, width] has each table's features last, mean
    0 and variance 1 over all its rows, and zeros before them; `classes` int64 [rows] is 0 or 1.
    `first`, `count` and `features` int64 [m] are a table's first row, its number of rows and its
    number of features; `fewest` is the minimum of `count`, on the host."""

    xs: Tensor
    classes: Tensor
    first: Tensor
    count: Tensor
    features: Tensor
    fewest: int


def load_rows(
    folder: str, names: tuple[str, ...], device: torch.device, part: Part | None = None
) -> Rows:
    """The tables `names` of a folder, or the rows of each that `part` returns for its number of
    rows. Cached until a file changes.

    Raises RunError, with the command that helps, for a file that is absent or damaged.
    """
    # Times of writing are a part of the cache's key, so that a table fetched anew is read anew.
    times = tuple(_path(folder, name).stat().st_mtime_ns for name in names)
    return _cached_rows(folder, names, times, device, part)


def table_sizes(folder: str, names: tuple[str, ...]) -> dict[str, tuple[int, int]]:
    """Rows and features of the tables `names`; RunError as for `load_rows`."""
    return {name: _arrays(_path(folder, name))[0].shape for name in names}


def tables_digest(folder: str, names: tuple[str, ...], needed: str) -> str:
    """A digest that is the same for the same files of these tables. One is `needed`, and others may
    be absent, as an evaluation on the held-out one has it. Raises RunError as `load_rows`."""
    others = [Path(folder) / f"{name}.npz" for name in names if name != needed]
    digests = []
    for path in [_path(folder, needed), *others]:
        if path.is_file():
            digests.append((path.name, _file_digest(path, path.stat().st_mtime_ns)))
    return sha256(repr(digests).encode()).hexdigest()[:16]


@lru_cache(maxsize=64)
def _file_digest(path: Path, time: int) -> str:
    """The sha256 of a file that was last written at this time."""
    return sha256(path.read_bytes()).hexdigest()


def distinct(random: RandomSource, count: Tensor, points: int) -> Tensor:
    """For each prompt `points` different numbers below its `count` [B], all ordered choices equally
    likely; int64 [B, points].

    Floyd's sampling (Bentley and Floyd 1987), all prompts at once, and a shuffle: its time and
    memory do not depend on how many rows there are.
    """
    draws = random.uniform(points, 2).double()  # 48 bits: no bias among a million rows
    uniform = draws[..., 0] + draws[..., 1] * 2.0**-24
    numbers = torch.empty_like(uniform, dtype=torch.int64)
    for index in range(points):
        # One of 0 … last is drawn; if it was taken, `last` is free, as no draw could reach it.
        last = count - points + index
        number = (uniform[:, index] * (last + 1)).long()
        duplicate = (numbers[:, :index] == number[:, None]).any(1)
        numbers[:, index] = torch.where(duplicate, last, number)
    # The set is uniform, the order not yet: later places tend to hold larger numbers.
    return numbers.gather(1, random.uniform(points).argsort(1))


def standardised(xs: Tensor) -> Tensor:
    """Inputs [B, n, d] with mean 0 and variance 1 over each prompt's context, its first n - 1 rows.
    A constant column becomes 0, for the query too."""
    context = xs[:, :-1]
    varies = context.amax(1, keepdim=True) > context.amin(1, keepdim=True)
    # Rounding may give a constant column a small std: whether it varies is asked of its extremes.
    std, mean = torch.std_mean(context, 1, correction=0, keepdim=True)
    return torch.where(varies, (xs - mean) / torch.where(varies, std, 1.0), 0.0)


@lru_cache(maxsize=4)
def _cached_rows(
    folder: str,
    names: tuple[str, ...],
    times: tuple[int, ...],
    device: torch.device,
    part: Part | None,
) -> Rows:
    tables = []
    labels = []
    for name in names:
        xs, classes = _arrays(_path(folder, name))
        index = np.arange(len(xs)) if part is None else part(len(xs))
        tables.append(_standardised_columns(xs, index))
        labels.append(torch.from_numpy(classes[index]))
    count = torch.tensor([len(table) for table in tables])
    features = torch.tensor([table.shape[1] for table in tables])
    # The sum of the counts before each table.
    first = count.cumsum(0) - count
    packed = torch.zeros(int(count.sum()), int(features.max()), dtype=torch.float32)
    for start, table in zip(first.tolist(), tables, strict=True):
        packed[start : start + len(table), packed.shape[1] - table.shape[1] :] = table
    return Rows(
        packed.to(device),
        torch.cat(labels).to(device),
        first.to(device),
        count.to(device),
        features.to(device),
        fewest=int(count.min()),
    )


def _standardised_columns(xs: NDArray[np.float64], rows: NDArray[np.int64]) -> Tensor:
    """The given rows in float32, with mean 0 and variance 1 over all rows. In float64 first: a
    column may vary little compared with its mean. One column at a time, to save memory."""
    table = torch.empty(len(rows), xs.shape[1], dtype=torch.float32)
    for index in range(xs.shape[1]):
        column = xs[:, index]
        unit = np.abs(column).max() or 1.0  # so that no square overflows
        scaled = column / unit
        column = (scaled - scaled.mean()) / (scaled.std() or 1.0)
        table[:, index] = torch.from_numpy(column[rows])
    return table


def _arrays(path: Path) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    try:
        with np.load(path, allow_pickle=False) as file:
            xs = file["xs"]
            ys = file["ys"]
    except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile) as error:
        reason = one_line(error)
        raise RunError(f"{path} is damaged ({reason}); {_fetch_one(path)} makes it again") from None
    return xs, ys


def _path(folder: str, name: str) -> Path:
    path = Path(folder, f"{name}.npz")
    if not path.is_file():
        raise RunError(f"there is no table {path}; {_fetch_one(path)} fetches it")
    return path


def _fetch_one(path: Path) -> str:
    """The command for a table that is not there: by default the ten published ones, which have
    ids; any other comes from a file."""
    own = () if path.stem in TEN else (f"{path.stem}.csv",)
    return fetch_command(path.parent, own)


def fetch_command(folder: Path, tables: Sequence[str]) -> str:
    """The command that stores tables, ids or files, in a folder; the ten published ones where none
    is named."""
    words = ["python", "-m", "openml_eval", "action=fetch"]
    if len(tables) > 1:
        words.append(f"tables=[{','.join(tables)}]")
    elif tables:
        words.append(f"tables={tables[0]}")
    words.append(f"data_dir={folder}")
    return f"`{shlex.join(words)}`"
