"""Small stored tables whose every value tells its table and its row."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from looplab.tasks.tables import Tables

SIZES = {"alpha": (300, 3), "beta": (240, 5), "gamma": (400, 2)}  # rows and features


def inputs(name: str) -> NDArray[np.float64]:
    """Normal columns of different means and spreads, [rows, features]."""
    rows, features = SIZES[name]
    random = np.random.default_rng(sorted(SIZES).index(name))
    spread = 10.0 ** np.arange(features)
    return random.normal(size=(rows, features)) * spread + 3 * spread


def classes(name: str) -> NDArray[np.int64]:
    """1 where the first column is above its mean and the last is below, [rows]."""
    xs = inputs(name)
    return ((xs[:, 0] > xs[:, 0].mean()) & (xs[:, -1] < xs[:, -1].mean())).astype(np.int64)


def write(folder: Path, sizes: Mapping[str, tuple[int, int]] = SIZES) -> Path:
    """The tables as files; the folder."""
    for name in sizes:
        np.savez(folder / f"{name}.npz", xs=inputs(name), ys=classes(name))
    return folder


def task(folder: Path, dims: int = 6, **settings: Any) -> Tables:
    """The task of all of them, beta held out."""
    values = {"data_dir": str(folder), "tables": tuple(SIZES), "held_out": "beta", **settings}
    return Tables(dims=dims, **values)
