"""The iso-depth law: its grid, what is fitted, what its words say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from looplab.conf.mistakes import ConfigError
from looplab.experiments import iso_depth
from looplab.experiments.claims import Measured
from looplab.experiments.command import main
from looplab.experiments.definition import load, members_of
from looplab.experiments.iso_depth import measure, verdict
from looplab.experiments.measuring import Measurement, Request
from looplab.experiments.plateau import bayes_error
from looplab.experiments.scaling_law.certainty import Certainty
from looplab.experiments.scaling_law.law import Fit, Law
from looplab.experiments.scaling_law.report import Fitted
from looplab.experiments.scaling_law.runs import parameter_counts
from looplab.experiments.scaling_law.table import ScalingTable
from looplab.training.assemble import build_curriculum, build_model, build_task
from looplab.training.optim.optimizers import learning_rate
from looplab.training.run_folder.files import read_record
from tests.experiments.checks import check_panels

LAW = Law(E=bayes_error(3, 8), A=4.0, B=20.0, alpha=0.4, beta=0.5, phi=0.4)
SOMETHING = "a recurrence is worth something, and less than layers of its own"
TINY = """
title: Tiny
source: here
claims: [iso_depth_recurrence_is_worth_something]
measure: iso_depth
small:
  runs:
    - {label: "r = {loops.b}", task: linear, model: recurrent, task.dims: 2, task.points: 4,
       model.n_layer: 1, model.n_embd: 8, model.n_head: 2, loops.b: [1, 2], training.steps: 2,
       training.batch_size: 4, curriculum.dims.start: null}
  evaluation: {prompts: 64, baselines: [bayes], resamples: 20, loops: null}
  settings: [{resamples: 20}]
"""


@pytest.mark.parametrize("scale", ["small", "medium"])
def test_the_grid_is_of_one_effective_depth(scale: str) -> None:
    configs = [member.config for member in members_of(load("iso_depth"), scale)]
    axes = [{c.loops.b for c in configs}, {c.model.n_embd for c in configs}]
    axes.append({c.training.steps for c in configs})
    assert len(configs) == np.prod([len(axis) for axis in axes])
    depths = set()
    for config in configs:
        r, width, steps = config.loops.b, config.model.n_embd, config.training.steps
        task = build_task(config)
        model = build_model(config, task)
        sizes = {name: parameter.numel() for name, parameter in model.named_parameters()}
        block = sum(size for name, size in sizes.items() if name.startswith("loop.prelude."))
        once, rec = parameter_counts(model)
        depths.add(rec * r / block)
        norms = sum(size for name, size in sizes.items() if name.startswith("loop.norm"))
        assert once == 2 * block + (2 * width**2 if r > 1 else 0) + norms
        curriculum = build_curriculum(config, task)
        for stage in (curriculum(0), curriculum(steps - 1)):
            assert (stage.dims, stage.points) == (config.task.dims, config.task.points)
            assert (stage.loops, stage.window, stage.grad_loops) == (r, 1, r)
        rates = [learning_rate(config.training, step) for step in range(steps)]
        assert max(rates) == config.training.learning_rate == pytest.approx(3e-3)
        assert rates[-1] < 0.01 * max(rates)
    assert depths == {4 if scale == "small" else 8}


def test_runs_on_the_plateau_determine_no_law(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(TINY, encoding="utf-8")
    assert main(["experiment=tiny.yaml", "jobs=1"]) == 0
    assert (
        "no law can be fitted to the 0 runs of 2 that left the plateau" in capsys.readouterr().out
    )
    record = read_record(tmp_path / "runs/experiments/tiny-small/result.json", "experiment")
    assert record.content is not None
    assert [panel["name"] for panel in record.content["panels"]] == ["iso-depth-width-8"]
    assert [each["verdict"] for each in record.content["verdicts"]] == ["not measured"]


def one_row(once: float, rec: float, r: float, data: float) -> ScalingTable:
    once_, rec_, r_, data_, loss = (np.array([float(each)]) for each in (once, rec, r, data, 1))
    return ScalingTable(once_, rec_, r_, data_, loss)


def found_of(
    monkeypatch: pytest.MonkeyPatch,
    stuck: Sequence[int] = (),
    law: Law = LAW,
    scale: str = "medium",
) -> Measurement:
    """What is measured of runs with the losses of a known law, but for those that stay at 0.9."""
    runs, rows = [], {}
    for index, member in enumerate(members_of(load("iso_depth"), scale)):
        config = member.config
        once, rec = parameter_counts(build_model(config, build_task(config)))
        data = config.training.steps * config.training.batch_size
        row = one_row(once, rec, config.loops.b, data)
        loss = 0.9 if index in stuck else float(law.loss(row)[0])
        arrays = {"model_at_b": np.full((4, 2), loss), "bayes": np.full((4, 2), law.E)}
        run = Measured(member.label, config, config.training.steps, arrays, path=str(index))
        runs.append(run)
        rows[run.path] = {
            "N_once": once, "N_rec": rec, "r": config.loops.b, "D": data, "loss": loss,
            "width": config.model.n_embd, "steps": config.training.steps, "run": run.path,
        }  # fmt: skip
    monkeypatch.setattr(iso_depth, "_row", lambda run: rows[run.path])
    return measure(Request([{"resamples": 20}], runs, ""))


def test_the_law_is_fitted_to_those_who_left(monkeypatch: pytest.MonkeyPatch) -> None:
    found = found_of(monkeypatch, stuck=(0, 27))
    result = found.results["iso_depth"]
    assert not found.missing
    assert (result["fitted"], result["on_plateau"]) == (34, ["0", "27"])
    law = result["law"]["fits"]["free"]["law"]
    assert law["phi"] == pytest.approx(LAW.phi, abs=1e-3)
    assert law["E"] == pytest.approx(LAW.E)
    assert result["law"]["clusters"] == {"columns": ["r", "width"], "number": 12}
    text = result["verdict"]
    assert f"phi = 0.40, 90 % interval 0.40 to 0.40: {SOMETHING}" in text
    assert f"counts as {8**LAW.phi:.2f}" in text
    assert "and are fitted; 2 did not: 1 of r = 1, 0 of r = 2, 0 of r = 4, 1 of r = 8\n" in text
    names = check_panels(found.panels)
    assert names[:3] == [f"iso-depth-width-{width}" for width in (24, 32, 48)]
    assert names[-2:] == ["scaling_law-by-phi", "scaling_law-r2"]
    by_width = found.panels[0]
    assert by_width.x == [750, 1500, 3000]
    assert [curve.number for curve in by_width.curves] == [1, 2, 4, 8]
    assert by_width.levels["least possible"] == LAW.E


def test_losses_that_do_not_depend_on_size_determine_no_phi(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = found_of(monkeypatch, law=replace(LAW, A=1e-12)).results["iso_depth"]
    assert {"alpha", "phi"} <= set(result["not_determined"])
    assert "counts as" not in result["verdict"]


def told(known: Certainty, at_edge: Sequence[str] = ()) -> str:
    """The first line of the verdict on a phi of 0.5 fitted to one run of r = 4."""
    free = Fit(replace(LAW, phi=0.5), 0.0, 0.99, (), tuple(at_edge))
    fits = Fitted(one_row(1, 1, 4, 1), {}, (), 1, 20, 0, {"free": free}, known)
    result: dict[str, Any] = {
        "on_plateau": [], "runs": [], "settings": {"r": [4]}, "fitted": 1, "bayes": 0.25,
        "bayes_expected": 0.25, "zero": 1.0,
    }  # fmt: skip
    return verdict(fits, result).splitlines()[0]


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
    line = told(Certainty({"phi": 0.1}, {"phi": 0.8}, 20, tuple(low), tuple(high), {}, {}))
    assert line.startswith(f"phi = 0.50, 90 % interval {shown}: ")
    known = "" if meaning.startswith("both") else "; a shared parameter run 4 times counts as 2.00"
    assert line.endswith(meaning + known)


@pytest.mark.parametrize(
    ("low", "high", "at_edge", "meaning"),
    [
        (0.1, 0.8, (), f"its value is not determined, but {SOMETHING}"),
        (0.1, 0.8, ("phi",), "it is not determined"),
        (-3, 4, (), "it is not determined, both 0 (nothing) and 1 (as much as layers of its own)"),
    ],
)
def test_a_phi_that_is_not_determined_is_said(
    low: float, high: float, at_edge: Sequence[str], meaning: str
) -> None:
    unknown = {"A": "why", "alpha": "why", "phi": "why"}
    line = told(Certainty({"phi": low}, {"phi": high}, 20, (), (), unknown, {}), at_edge)
    assert line.startswith(f"phi = 0.50, 90 % interval {low:.2f} to {high:.2f}: {meaning}")


def test_two_settings_of_the_law_are_a_mistake() -> None:
    run = Measured("a", members_of(load("iso_depth"), "small")[0].config, 1, {})
    with pytest.raises(ConfigError, match="settings must be one for the law, got 2"):
        measure(Request([{}, {}], [run], ""))
