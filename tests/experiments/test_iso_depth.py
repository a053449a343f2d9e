"""The iso-depth law: its grid, and what is fitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pandas import DataFrame

from looplab.evaluation.load import LoadedModel
from looplab.experiments import iso_depth
from looplab.experiments.claims import Measured
from looplab.experiments.command import main
from looplab.experiments.definition import load, members_of
from looplab.experiments.iso_depth import measure
from looplab.experiments.measuring import Measurement, Request
from looplab.experiments.plateau import bayes_error
from looplab.experiments.scaling_law.law import Law, row_of
from looplab.training.assemble import build_model, build_task
from looplab.training.run_folder.files import read_record
from tests.experiments.checks import check_panels

LAW = Law(E=bayes_error(3, 8), A=4.0, B=20.0, alpha=0.4, beta=0.5, phi=0.4)
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
"""


def test_runs_on_the_plateau_determine_no_law(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(TINY, encoding="utf-8")
    assert main(["experiment=tiny.yaml", "jobs=1"]) == 0
    said = "no law can be fitted to the 0 runs of 2 that left the plateau"
    assert said in capsys.readouterr().out
    record = read_record(tmp_path / "runs/experiments/tiny-small/result.json", "experiment")
    assert record.content is not None
    assert [panel["name"] for panel in record.content["panels"]] == ["iso-depth-width-8"]
    assert [each["verdict"] for each in record.content["verdicts"]] == ["not measured"]


def found_of(
    monkeypatch: pytest.MonkeyPatch, stuck: Sequence[int] = (), law: Law = LAW
) -> Measurement:
    """What is measured of runs with the losses of a known law, but for those that stay at 0.9."""
    runs, models = [], {}
    for index, member in enumerate(members_of(load("iso_depth"), "medium")):
        config, steps = member.config, member.config.training.steps
        loaded = LoadedModel(Path(), config, build_model(config, build_task(config)), steps)
        table = DataFrame([row_of(loaded, 1.0)])
        loss = 0.9 if index in stuck else float(law.loss(table)[0])
        arrays = {"model_at_b": np.full((4, 2), loss), "bayes": np.full((4, 2), law.E)}
        config = replace(config, evaluation=replace(config.evaluation, resamples=20))
        runs.append(Measured(member.label, config, steps, arrays, path=str(index)))
        models[str(index)] = loaded
    monkeypatch.setattr(iso_depth, "load_model", models.__getitem__)
    return measure(Request([], runs, ""))


def test_the_law_is_fitted_to_those_who_left(monkeypatch: pytest.MonkeyPatch) -> None:
    found = found_of(monkeypatch, stuck=(0, 27))
    result = found.results["iso_depth"]
    assert not found.missing
    assert (result["fitted"], result["on_plateau"]) == (34, ["0", "27"])
    assert len(result["losses"]) == 34
    assert result["phi"]["value"] == pytest.approx(LAW.phi, abs=1e-3)
    assert result["phi"]["low"] == pytest.approx(LAW.phi, abs=0.01)
    assert result["not_determined"] == []
    names = check_panels(found.panels)
    assert names[:3] == [f"iso-depth-width-{width}" for width in (24, 32, 48)]
    assert names[-2:] == ["residuals", "scaling_law-by-phi"]
    by_width = found.panels[0]
    assert by_width.x == [750, 1500, 3000]
    assert [curve.number for curve in by_width.curves] == [1, 2, 4, 8]
    assert by_width.levels["least possible"] == LAW.E


def test_losses_that_do_not_depend_on_size_determine_no_phi(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = found_of(monkeypatch, law=replace(LAW, A=1e-12)).results["iso_depth"]
    assert {"alpha", "phi"} <= set(result["not_determined"])
