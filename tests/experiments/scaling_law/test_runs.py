"""Run folders as rows of a table: what is counted, which losses are read, who is left out."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from looplab.conf.mistakes import RunError
from looplab.conf.schema import (
    Config,
    CurriculumConfig,
    EvaluationConfig,
    GrowthConfig,
    LoopsConfig,
    ModelConfig,
    TaskConfig,
)
from looplab.evaluation import evaluate
from looplab.evaluation.load import LoadedModel
from looplab.experiments.scaling_law.__main__ import read_runs
from looplab.experiments.scaling_law.law import row_of
from looplab.models import Model, ModelSpec
from looplab.training import Run, train
from tests.conftest import tiny_config

pytestmark = pytest.mark.usefixtures("undrawn")

SHAPES = [
    {},
    {"family": "tied", "injection": "none", "n_layer": 2},
    {"injection": "concat", "prelude": 2, "coda": 1, "n_layer": 3, "block": "llama"},
    {"injection": "none", "lanes": 2, "loops": 3, "prelude": 1},
    {"injection": "none", "connectivity": "FLT", "block": "flt", "n_layer": 2},
]


_ALL_LOOPS = CurriculumConfig(loops=GrowthConfig(start=4))  # from the first step


def short(folder: Path, steps: int = 3, **changes: Any) -> Config:
    config = replace(tiny_config(folder), **{"curriculum": _ALL_LOOPS, **changes})
    return replace(config, training=replace(config.training, steps=steps))


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


def evaluated(config: Config) -> Run:
    run = train(config)
    evaluate(run, EvaluationConfig(prompts=32, resamples=20))
    return run


def test_a_run_is_a_row(tmp_path: Path) -> None:
    model = ModelConfig(
        n_embd=16, n_head=2, n_positions=7, injection="concat", prelude=1, n_layer=2
    )
    run = evaluated(short(tmp_path, model=model, loops=LoopsConfig(b=4, T=2)))
    (row,) = read_runs([run.path])[0].to_dict("records")
    errors = np.load(run.path / "evaluation.npz")["model_at_b"]
    assert row["loss"] == pytest.approx(errors.mean(dtype=np.float64))
    model_row = row_of(run, row["loss"])
    assert row == {**model_row, "run": run.path.name}
    assert (row["r"], row["D"]) == (4, 3 * 8)


def test_runs_without_a_row_are_said(tmp_path: Path) -> None:
    run = evaluated(short(tmp_path))
    growing = evaluated(short(tmp_path, curriculum=CurriculumConfig())).path
    untold = train(short(tmp_path, steps=2)).path
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    (damaged / "config.yaml").write_text("task: {")
    table, left_out = read_runs([run.path, damaged, growing, untold])
    assert table.run.tolist() == [run.path.name]
    for path, line in zip((damaged, growing, untold), left_out, strict=False):
        assert line.startswith(f"left out: {path}: ")
    with pytest.raises(RunError, match="no run has a row for the table"):
        read_runs([untold])


def test_errors_on_different_prompts_do_not_mix(tmp_path: Path) -> None:
    run = evaluated(short(tmp_path))
    task = TaskConfig("sparse_linear", dims=3, points=7, settings={"sparsity": 1})
    other = evaluated(short(tmp_path / "others", task=task))
    with pytest.raises(RunError, match=f"{other.path.name} are of different tasks, or were"):
        read_runs([run.path, other.path])
    few = replace(run.config.task, distinct_prompts=16)  # they train on other prompts alone
    other = evaluated(short(tmp_path, task=few))
    assert len(read_runs([run.path, other.path])[0]) == 2
    evaluate(other, EvaluationConfig(prompts=32, resamples=20, seed=1))
    with pytest.raises(RunError, match="evaluated on different prompts"):
        read_runs([run.path, other.path])
