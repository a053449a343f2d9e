"""A run as a row of the law's table: which of its parameters run once."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from looplab.conf.mistakes import RunError
from looplab.conf.schema import Config
from looplab.experiments.scaling_law import runs as rows
from looplab.models import Model, ModelSpec
from looplab.training import Run
from looplab.training.assemble import build_task

SHAPES = [
    {},
    {"family": "tied", "injection": "none", "n_layer": 2},
    {"injection": "concat", "prelude": 2, "coda": 1, "n_layer": 3, "block": "llama"},
    {"injection": "none", "lanes": 2, "loops": 3, "prelude": 1},
    {"injection": "none", "connectivity": "FLT", "block": "flt", "n_layer": 2},
]


@pytest.mark.parametrize("shape", SHAPES)
def test_parameters_are_counted_by_where_they_stand(
    shape: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Model(ModelSpec(dims=3, n_embd=8, n_head=2, n_positions=5, **shape))
    sizes = {name: parameter.numel() for name, parameter in model.named_parameters()}
    rec = sum(size for name, size in sizes.items() if name.startswith("loop.blocks."))
    apart = ("loop.blocks.", "loop.positions", "read_in.", "read_out.")
    once = sum(size for name, size in sizes.items() if not name.startswith(apart))
    errors = {"model_at_b": np.ones((1, 1))}
    monkeypatch.setattr(rows, "evaluated", lambda run, settings: (None, errors))
    config = Config()
    row = rows.row_of(Run(Path(), config, build_task(config), model, 0), config.evaluation)
    assert (row["N_once"], row["N_rec"]) == (once, rec)
    assert rec > 0


def test_a_table_is_made_of_runs(tiny_run: Run) -> None:
    folder = tiny_run.path.parent
    (row,) = rows.table_of(f"{folder}/*").to_dict("records")
    assert row["run"] == tiny_run.path.name
    assert row["D"] == tiny_run.step * tiny_run.config.training.batch_size
    assert row["budget"] > 0
    assert 0 < row["loss"] < 2
    with pytest.raises(RunError, match="matches no finished run"):
        rows.table_of(f"{folder}/none-*")
