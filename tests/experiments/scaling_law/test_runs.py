"""Run folders as rows of a table: what is counted, which losses are read, who is left out; and the
folders that a user names."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from looplab.conf.mistakes import ConfigError, RunError
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
from looplab.experiments.scaling_law.__main__ import main
from looplab.experiments.scaling_law.runs import parameter_counts, read_runs, row_of
from looplab.experiments.scaling_law.settings import run_folders
from looplab.models import Model, ModelSpec
from looplab.training import Run, train
from looplab.training.run_folder.files import read_record, write_record
from looplab.training.run_folder.run import run_folder
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


@pytest.fixture
def tiny_run(tmp_path: Path) -> Run:
    """A finished run that has come to the end of its curriculum."""
    return train(replace(tiny_config(tmp_path), curriculum=_ALL_LOOPS))


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
    assert parameter_counts(model) == (once, rec)
    assert rec > 0


def test_a_run_is_a_row(tmp_path: Path) -> None:
    model = ModelConfig(
        n_embd=16, n_head=2, n_positions=7, injection="concat", prelude=1, n_layer=2
    )
    growing = CurriculumConfig()
    run = train(short(tmp_path, model=model, loops=LoopsConfig(b=3, T=2), curriculum=growing))
    row = row_of(run)
    errors = np.load(run.path / "evaluation.npz")["model_at_b"]
    assert row.loss == pytest.approx(errors.mean(dtype=np.float64))
    assert (row.N_once, row.N_rec) == parameter_counts(run.model)
    assert (row.r, row.D, row.name) == (3, 3 * 8, run.path.name)


def test_an_evaluation_that_is_there_is_read_and_stays(tiny_run: Run) -> None:
    evaluate(tiny_run, EvaluationConfig(prompts=32, resamples=20, loops=2))
    path = tiny_run.path / "evaluation.json"
    before = path.read_bytes()
    expected = np.mean(json.loads(before)["by_examples"]["model_at_b"]["mean"])
    assert row_of(tiny_run).loss == pytest.approx(expected)
    assert path.read_bytes() == before


def test_an_evaluation_of_other_weights_is_not_read(tiny_run: Run) -> None:
    loss = row_of(tiny_run).loss
    path = tiny_run.path / "evaluation.json"
    kept = json.loads(path.read_text())
    kept["weights"] = "others"
    kept["by_examples"]["model_at_b"]["mean"] = [5.0]
    path.write_text(json.dumps(kept))
    assert row_of(tiny_run).loss == pytest.approx(loss)


def test_runs_without_a_row_are_said(
    tiny_run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    standard = ModelConfig(family="standard", n_embd=16, n_head=2, n_positions=7, injection="none")
    growing = CurriculumConfig()
    other = train(short(tmp_path, model=standard, steps=0, curriculum=growing)).path
    young = train(short(tmp_path, curriculum=growing)).path
    begun = run_folder(short(tmp_path, steps=50))
    begun.create(short(tmp_path, steps=50))
    begun.write_status("interrupted", 20)
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    (damaged / "config.yaml").write_text("task: {")
    table, left_out = read_runs([tiny_run.path, other, begun.path, damaged, young])
    assert table.labels == {"run": (tiny_run.path.name,)}
    assert table.r.tolist() == [4]
    assert left_out[:2] == [
        f"left out: {other}: a standard model runs each layer once: it has no loop to count",
        f"left out: {begun.path}: it is not finished (interrupted, 20 of 50 steps)",
    ]
    assert left_out[2].startswith(f"left out: {damaged}: {damaged / 'config.yaml'} cannot be read")
    assert left_out[3] == f"left out: {young}: curriculum unfinished: loops 2 of 4"
    capsys.readouterr()
    assert main([f"runs={tmp_path}"]) == 1
    out, err = capsys.readouterr()
    assert sorted(out.splitlines()) == sorted(left_out)
    assert err == "experiments.scaling_law: the table has 1 rows, too few for 6 free parameters\n"
    with pytest.raises(RunError, match=r"no run has a row for the table; left out: .*standard"):
        read_runs([other])


def test_errors_on_different_prompts_do_not_mix(tiny_run: Run, tmp_path: Path) -> None:
    task = TaskConfig("sparse_linear", dims=3, points=7, settings={"sparsity": 1})
    asked = replace(tiny_run.config.evaluation, seed=1)
    for changes in ({"task": task}, {"evaluation": asked}):
        other = train(short(tmp_path / "others", **changes))
        with pytest.raises(RunError, match=f"{other.path.name} are of different tasks, or were"):
            read_runs([tiny_run.path, other.path])
    few = replace(tiny_run.config.task, distinct_prompts=16)  # they train on other prompts alone
    other = train(short(tmp_path, task=few))
    table, _ = read_runs([tiny_run.path, other.path])
    assert len(table) == 2


def test_runs_or_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["table=minima", f"runs={tmp_path}"]) == 2
    assert "runs cannot stand beside table=" in capsys.readouterr().err
    assert main([f"runs={tmp_path}"]) == 2
    assert "which neither is a run nor holds any" in capsys.readouterr().err


def test_a_row_of_a_run_of_other_code_is_marked(tiny_run: Run) -> None:
    path = tiny_run.path / "environment.json"
    made_with = read_record(path, "environment").content
    assert made_with is not None
    write_record(path, "environment", made_with | {"sources": {"models/model.py": "another"}})
    _, told = read_runs([tiny_run.path])
    (line,) = told
    assert line.startswith(f"{tiny_run.path.name}: trained by other code: ")


def made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.yaml").touch()
    return folder


def test_each_run_is_found_once_in_order(tmp_path: Path) -> None:
    b, a, other = (made(tmp_path / name) for name in ("runs/b", "runs/a", "other"))
    (tmp_path / "runs" / "iso_depth-1").mkdir()
    runs = str(tmp_path / "runs")
    assert run_folders([runs]) == [a, b]
    assert run_folders([str(b), runs, str(other), f"{runs}/../runs"]) == [b, a, other]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere", "must name folders, got '{}'"),
        ("runs/a/config.yaml", "must name folders, got '{}'"),
        (".", "names {}, which neither is a run nor holds any"),
    ],
)
def test_what_is_no_run_is_refused(name: str, said: str, tmp_path: Path) -> None:
    made(tmp_path / "runs/a")
    path = tmp_path / name
    with pytest.raises(ConfigError) as caught:
        run_folders([str(path)])
    assert str(caught.value) == "runs " + said.format(path)
