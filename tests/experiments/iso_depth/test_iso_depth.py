"""`python -m experiments.iso_depth`: the grid, what is trained once, what is fitted."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from looplab.conf.checks.config import check_config
from looplab.conf.mistakes import ConfigError
from looplab.evaluation.panel import Panel
from looplab.experiments.iso_depth import run as iso_depth_run
from looplab.experiments.iso_depth.__main__ import main
from looplab.experiments.iso_depth.run import Measured, Measurements, TrainAndMeasure, grid, verdict
from looplab.experiments.iso_depth.settings import IsoDepthSettings, in_settings
from looplab.experiments.plateau import bayes_error, highest
from looplab.experiments.scaling_law.certainty import Certainty
from looplab.experiments.scaling_law.fit import Fit
from looplab.experiments.scaling_law.problem import Law
from looplab.experiments.scaling_law.runs import Row, parameter_counts, table_of
from looplab.experiments.scaling_law.table import read_csv
from looplab.training.assemble import build_curriculum, build_model, build_task
from looplab.training.jobs import Outcome, Workers
from looplab.training.optim.optimizers import learning_rate
from tests.conftest import times_of

TINY = "r=[1,2] widths=8 steps=2 depth=2 heads=2 dims=2 points=4 batch_size=4 resamples=20"
SMALL = ["resamples=20", "dims=3", "points=8", "widths=[16,48]", "steps=[500,1000,4000]"]
SOMETHING = "a recurrence is worth something, and less than layers of its own"
LAW = Law(E=bayes_error(3, 8), A=4.0, B=20.0, alpha=0.4, beta=0.5, phi=0.4)


def result_of(folder: Path) -> tuple[Path, dict[str, Any]]:
    (path,) = folder.glob("iso_depth-????????")
    return path, json.loads((path / "iso_depth.json").read_text())


def test_the_grid_is_of_one_effective_depth() -> None:
    settings = IsoDepthSettings()
    configs = grid(settings)
    axes = {(c.loops.b, c.model.n_embd, c.training.steps) for c in configs}
    assert len(configs) == len(axes)
    assert len(axes) == len(settings.r) * len(settings.widths) * len(settings.steps)
    lengths = [config.training.steps for config in configs]
    assert lengths == sorted(lengths, reverse=True)
    for config in configs:
        check_config(config)
        r, w, steps = config.loops.b, config.model.n_embd, config.training.steps
        task = build_task(config)
        model = build_model(config, task)
        sizes = {name: parameter.numel() for name, parameter in model.named_parameters()}
        block = sum(size for name, size in sizes.items() if name.startswith("loop.prelude."))
        once, rec = parameter_counts(model)
        assert rec * r == 8 * block
        norms = sum(size for name, size in sizes.items() if name.startswith("loop.norm"))
        assert once == 2 * block + (2 * w**2 if r > 1 else 0) + norms
        curriculum = build_curriculum(config, task)
        for stage in (curriculum(0), curriculum(steps - 1)):
            assert (stage.dims, stage.points) == (settings.dims, settings.points)
            assert (stage.loops, stage.window, stage.grad_loops) == (r, 1, r)
        rates = [learning_rate(config.training, step) for step in range(steps)]
        assert max(rates) == config.training.learning_rate
        assert rates[-1] < 0.01 * max(rates)


def test_a_second_call_trains_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*TINY.split(), f"folder={tmp_path}"]
    assert main([*words, "jobs=1"]) == 1  # in so few steps nobody leaves the plateau
    first = capsys.readouterr()
    assert first.err.startswith(
        "experiments.iso_depth: no law can be fitted to the 0 runs of 2 that left the plateau: "
        "the table has 0 rows, too few for 5 free parameters; "
    )
    assert first.err.count("\n") == 1
    folder, result = result_of(tmp_path)
    assert len(result["on_plateau"]) == 2
    assert result["bayes_expected"] == bayes_error(2, 4)
    assert result["zero"] == pytest.approx(1, abs=0.15)
    assert result["bayes"] == pytest.approx(bayes_error(2, 4), abs=0.05)
    stayed = read_csv(folder / "plateau.csv")
    assert stayed.labels["run"] == tuple(result["on_plateau"])
    assert stayed.labels["steps"] == ("2", "2")
    assert stayed.D.tolist() == [8, 8]
    for loss in stayed.loss:
        assert f"({loss:.4f})" in first.out

    trained = times_of(tmp_path, "**/checkpoints/*")
    assert main([*words, "jobs=1"]) == 1
    assert times_of(tmp_path, "**/checkpoints/*") == trained
    assert capsys.readouterr().out.splitlines()[-3:] == first.out.splitlines()[-3:]
    assert result_of(tmp_path) == (folder, result)


@pytest.fixture
def by_law(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """by_law(stuck=names, failed=names, law=LAW): nothing is trained, the losses are of a known law
    but for those who stay at 0.9 or fail."""

    def by_law(stuck: Sequence[str] = (), failed: Sequence[str] = (), law: Law = LAW) -> None:
        def run(jobs: Sequence[TrainAndMeasure], workers: Workers) -> list[Outcome]:
            outcomes = []
            for job in jobs:
                config = job.config
                counts = parameter_counts(build_model(config, build_task(config)))
                prompts = config.training.steps * config.training.batch_size
                row = Row(job.name, *counts, config.loops.b, prompts, 1.0, ())
                loss = 0.9 if job.name in stuck else float(law.loss(table_of([row]))[0])
                outcome = Outcome(Measured(replace(row, loss=loss), law.E, 1.0))
                outcomes.append(Outcome(failure="a full disk") if job.name in failed else outcome)
            return outcomes

        monkeypatch.setattr(iso_depth_run, "run_jobs", run)

    return by_law


def test_the_law_is_fitted_to_those_who_left(
    tmp_path: Path, by_law: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    stuck = ("r = 1, 16 wide, 500 steps", "r = 8, 48 wide, 500 steps")
    by_law(stuck)
    assert main([*SMALL, f"folder={tmp_path}"]) == 0
    out = capsys.readouterr().out
    folder, result = result_of(tmp_path)
    assert (result["fitted"], set(result["on_plateau"])) == (22, set(stuck))
    fits = result["law"]
    law = fits["fits"]["free"]["law"]
    assert law["phi"] == pytest.approx(LAW.phi, abs=1e-3)
    assert law["E"] == pytest.approx(LAW.E)
    assert fits["held"] == {"E": pytest.approx(LAW.E)}
    assert fits["clusters"] == {"columns": ["r", "width"], "number": 8}
    assert f"phi = 0.40, 90 % interval 0.40 to 0.40: {SOMETHING}" in out
    limit = highest(result["bayes"], result["zero"])
    assert f"22 of 24 runs left the plateau (loss at most {limit:.4f}: E + 0.5 (Z - E))" in out
    assert "2 did not and are left out: 1 of r = 1, 0 of r = 2, 0 of r = 4, 1 of r = 8\n" in out
    assert "leaving out by loss selects on the outcome" in out
    assert "the interval does not cover what another set of them would change" in out
    assert f"counts as {8**LAW.phi:.2f}" in out
    assert result["verdict"] in out
    lines = {line[:15].rstrip(): line.split()[4:] for line in out.splitlines()}
    assert lines["r = 1, 16 wide"][1] == "(0.9000)"
    assert lines["r = 1, 16 wide"][2] != "(0.9000)"
    # What was fitted can be fitted again.
    table = read_csv(folder / "runs.csv")
    assert len(table) == 22
    np.testing.assert_allclose(table.loss, LAW.loss(table))
    pictures = ("iso-depth", "scaling_law", "scaling_law-by-phi", "scaling_law-r2")
    for name in pictures:
        assert (folder / "figures" / f"{name}.png").exists()
    panels = {each["name"]: Panel.read(each) for each in result["panels"]}
    measured = [c for c in panels["loss-r-1"].curves if c.points and "lowest" not in c.name]
    assert sum(len(curve.mean) for curve in measured) == int((table.r == 1).sum())
    assert [len(c.mean) for c in panels["iso-depth-width-16"].curves] == [3] * 4


def test_runs_that_fail_are_said_and_the_rest_is_fitted(
    tmp_path: Path, by_law: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    name = "r = 2, 48 wide, 4000 steps"
    by_law(failed=[name])
    assert main([*SMALL, f"folder={tmp_path}"]) == 1
    out, err = capsys.readouterr()
    assert err == f"experiments.iso_depth: 1 of 24 runs failed; the first: {name}: a full disk\n"
    _, result = result_of(tmp_path)
    assert result["failed"] == [f"{name}: a full disk"]
    assert result["fitted"] == 23
    assert "0 did not and are left out\n" in out
    assert "selects on the outcome" not in out
    (line,) = (line for line in out.splitlines() if line.startswith("r = 2, 48 wide"))
    assert line.split()[-1] == "-"


def told(known: Certainty, at_edge: Sequence[str] = ()) -> list[str]:
    """The verdict on a phi of 0.5 fitted to one run of r = 4."""
    table, none = table_of([Row("one", 1, 1, 4, 1, 1.0, ())]), table_of([])
    free = Fit(replace(LAW, phi=0.5), 0.0, 0.99, (), tuple(at_edge))
    return verdict(free, known, Measurements(table, none, (), 0.25, 1.0), 0.25).splitlines()


@pytest.mark.parametrize(
    ("low", "high", "shown", "meaning"),
    [
        ((), (), "0.10 to 0.80", SOMETHING),
        ((), ("phi",), "0.10 to the search's edge", "possibly as much as layers of its own"),
        (("phi",), ("beta",), "the search's edge to 0.80", "possibly nothing"),
        (
            ("phi",),
            ("phi",),
            "the search's edge to the search's edge",
            "both 0 (nothing) and 1 (as much as layers of its own) may be",
        ),
    ],
)
def test_an_interval_that_ends_where_the_search_does_is_open(
    low: Sequence[str], high: Sequence[str], shown: str, meaning: str
) -> None:
    line = told(Certainty({"phi": 0.1}, {"phi": 0.8}, tuple(low), tuple(high), {}, {}))[0]
    assert line.startswith(f"phi = 0.50, 90 % interval {shown}: ")
    known = "" if meaning.startswith("both") else "; a shared parameter run 4 times counts as 2.00"
    assert line.endswith(meaning + known)


def test_one_r_determines_no_phi(
    tmp_path: Path, by_law: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    by_law()
    assert main([*SMALL[1:], "r=2", f"folder={tmp_path}"]) == 1
    assert "has one value of r only, which cannot tell phi" in capsys.readouterr().err
    folder, _ = result_of(tmp_path)
    assert len(read_csv(folder / "runs.csv")) == 6


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("r=3", "r must divide depth=8, got 3"),
        ("r=[1,2,1]", "r holds a number twice: 1, 2, 1"),
        ("widths=[]", "widths must hold at least one"),
        ("steps=0", "steps must be at least 1, got 0"),
        ("resamples=3", "resamples must be at least 20, got 3"),
        ("jobs=0", "jobs must be at least 1, got 0"),
        ("width=8", "width is not a setting; did you mean 'widths'"),
        ("widths=31", "widths must be multiples of heads=2, got 31"),
        ("heads=5 widths=[30,31]", "widths must be multiples of heads=5, got 31"),
        ("heads=5", "heads must divide each of widths=[24,32,48], got 5"),
        ("heads=0", "heads must be at least 1, got 0"),
        ("depth=6", "depth must be a multiple of each of r=[1,2,4,8], got 6"),
        ("learning_rate=0", "learning_rate must be above 0 and finite, got 0.0"),
        ("dims=0", "dims must be at least 1, got 0"),
        ("batch_size=0", "batch_size must be at least 1, got 0"),
        ("seed=-1", "seed must be at least 0, got -1"),
        ("seed=5000000000000000000", "seed must be below 2^62, got 5000000000000000000"),
    ],
)
def test_a_mistake_is_one_line_and_writes_nothing(
    words: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words.split(), f"folder={tmp_path / 'runs'}"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"experiments.iso_depth: {said}")
    assert err.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_a_check_of_the_runs_names_the_settings() -> None:
    """Whatever a run's configuration is refused for, in the words of the command."""
    inner = ConfigError("model.n_embd", "is beyond model.n_head=2 and training.batch_size=4")
    told = in_settings(inner)
    assert (told.key, str(told)) == ("widths", "widths is beyond heads=2 and batch_size=4")
    other = ConfigError("model.n_embdx", "is as it was")
    assert str(in_settings(other)) == str(other)


@pytest.mark.parametrize(
    ("low", "high", "at_edge", "meaning"),
    [
        (0.1, 0.8, (), f"its value is not determined, but {SOMETHING}"),
        (0.1, 0.8, ("phi",), "it is not determined"),
        (-3, 4, (), "it is not determined, both 0 (nothing) and 1 (as much as layers of its own)"),
    ],
)
def test_a_phi_that_is_not_determined_counts_for_nothing(
    low: float, high: float, at_edge: Sequence[str], meaning: str
) -> None:
    unknown = {"A": "why", "alpha": "why", "phi": "why"}
    first, second = told(Certainty({"phi": low}, {"phi": high}, (), (), unknown, {}), at_edge)[:2]
    assert first.startswith(f"phi = 0.50, 90 % interval {low:.2f} to {high:.2f}: {meaning}")
    assert "counts as" not in first
    assert second == "of the law's other parameters, not determined: A, alpha"


def test_losses_that_do_not_depend_on_size_determine_no_phi(
    tmp_path: Path, by_law: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    by_law(law=replace(LAW, A=1e-12))
    assert main([*SMALL, f"folder={tmp_path}"]) == 0
    _, result = result_of(tmp_path)
    assert result["not_determined"] == ["A", "alpha", "phi"]
    assert list(result["law"]["not_determined"]) == ["A", "alpha", "phi"]
    assert "it is not determined" in result["verdict"].splitlines()[0]
    assert "counts as" not in result["verdict"]
    assert "of the law's other parameters, not determined: A, alpha\n" in result["verdict"]
    assert result["verdict"] in capsys.readouterr().out


def test_help_states_the_rule_and_the_settings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert "above E + 0.5 (Z - E)" in out
    assert "selects on the outcome" in out
    assert "r=[1,2,4,8]" in out
    assert "jobs=null" in out
