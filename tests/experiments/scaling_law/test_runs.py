"""A run as a row of the law's table: which of its parameters run once."""

from pathlib import Path
from typing import Any

import pytest

from looplab.conf.mistakes import RunError
from looplab.conf.schema import Config
from looplab.evaluation.load import LoadedModel
from looplab.experiments.scaling_law.runs import row_of, table_of
from looplab.models import Model, ModelSpec
from looplab.training import Run

SHAPES = [
    {},
    {"family": "tied", "injection": "none", "n_layer": 2},
    {"injection": "concat", "prelude": 2, "coda": 1, "n_layer": 3, "block": "llama"},
    {"injection": "none", "lanes": 2, "loops": 3, "prelude": 1},
    {"injection": "none", "connectivity": "FLT", "block": "flt", "n_layer": 2},
]


@pytest.mark.parametrize("shape", SHAPES)
def test_parameters_are_counted_by_where_they_stand(shape: dict[str, Any]) -> None:
    model = Model(ModelSpec(dims=3, n_embd=8, n_head=2, n_positions=5, **shape))
    sizes = {name: parameter.numel() for name, parameter in model.named_parameters()}
    rec = sum(size for name, size in sizes.items() if name.startswith("loop.blocks."))
    apart = ("loop.blocks.", "loop.positions", "read_in.", "read_out.")
    once = sum(size for name, size in sizes.items() if not name.startswith(apart))
    row = row_of(LoadedModel(Path(), Config(), model, 0), 1.0)
    assert (row["N_once"], row["N_rec"]) == (once, rec)
    assert rec > 0


def test_a_table_is_made_of_runs(tiny_run: Run) -> None:
    folder = tiny_run.path.parent
    (row,) = table_of(f"{folder}/*").to_dict("records")
    assert row["run"] == tiny_run.path.name
    assert row["D"] == tiny_run.step * tiny_run.config.training.batch_size
    assert row["budget"] > 0
    assert 0 < row["loss"] < 2
    with pytest.raises(RunError, match="matches no finished run"):
        table_of(f"{folder}/none-*")
