"""The iso-depth law: what is fitted."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pandas import DataFrame

from looplab.evaluation.load import LoadedModel
from looplab.experiments import iso_depth
from looplab.experiments.claims import Measured
from looplab.experiments.definition import load, members_of
from looplab.experiments.iso_depth import measure
from looplab.experiments.measuring import Measurement, Request
from looplab.experiments.plateau import bayes_error
from looplab.experiments.scaling_law.law import Law
from looplab.experiments.scaling_law.runs import row_of
from looplab.training.assemble import build_model, build_task
from tests.experiments.checks import check_panels

LAW = Law(E=bayes_error(3, 8), A=4.0, B=20.0, alpha=0.4, beta=0.5, phi=0.4)


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
    assert names[-1] == "residuals"
    by_width = found.panels[0]
    assert by_width.x == [750, 1500, 3000]
    assert [curve.number for curve in by_width.curves] == [1, 2, 4, 8]
    assert by_width.levels["least possible"] == LAW.E
