"""Three small tables, and the words that train tiny models on two of them."""

from pathlib import Path

import numpy as np

from looplab.openml_eval.tables import Source, Table, write_table
from tests.openml_eval.data import halves

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
