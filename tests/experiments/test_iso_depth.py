"""The iso-depth law: what is fitted."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from looplab.conf.schema import EvaluationConfig
from looplab.experiments import iso_depth
from looplab.experiments.definition import load, members_of
from looplab.experiments.iso_depth import measure
from looplab.experiments.plateau import bayes_error
from looplab.experiments.scaling_law import runs as rows
from looplab.experiments.scaling_law.law import Law
from looplab.training import Run
from looplab.training.assemble import build_model, build_task
from tests.experiments.checks import check_panels, panels_of

LAW = Law(E=bayes_error(3, 8), A=4.0, B=20.0, alpha=0.4, beta=0.5, phi=0.4)
STUCK = ("0", "27")  # at 0.9


def test_the_law_is_fitted_to_those_who_left(monkeypatch: pytest.MonkeyPatch) -> None:
    def evaluated(run: Run, settings: EvaluationConfig) -> tuple[None, dict[str, Any]]:
        rec = sum(parameter.numel() for parameter in run.model.loop.blocks.parameters())
        size = run.model.backbone_parameters() - rec + run.config.loops.b**LAW.phi * rec
        prompts = run.step * run.config.training.batch_size
        loss = LAW.E + LAW.A * size**-LAW.alpha + LAW.B * prompts**-LAW.beta
        loss = 0.9 if run.path.name in STUCK else loss
        return None, {"model_at_b": np.full((4, 2), loss), "bayes": np.full((4, 2), LAW.E)}

    monkeypatch.setattr(iso_depth, "evaluated", evaluated)
    monkeypatch.setattr(rows, "evaluated", evaluated)
    runs = []
    for index, member in enumerate(members_of(load("iso_depth"), "medium")):
        config, task = member.config, build_task(member.config)
        model = build_model(config, task)
        runs.append(Run(Path(str(index)), config, task, model, config.training.steps))
    result = measure(runs, EvaluationConfig(resamples=20))
    assert len(result["losses"]) == result["fitted"] == 34
    assert result["phi"]["value"] == pytest.approx(LAW.phi, abs=1e-3)
    assert result["phi"]["low"] == pytest.approx(LAW.phi, abs=0.01)
    assert result["not_determined"] == []
    panels = panels_of(iso_depth, result)
    names = check_panels(panels)
    assert names[:3] == [f"iso-depth-width-{width}" for width in (24, 32, 48)]
    assert names[-1] == "residuals"
    by_width = panels[0]
    assert by_width.x == [750, 1500, 3000]
    assert [curve.number for curve in by_width.curves] == [1, 2, 4, 8]
    assert by_width.levels["least possible"] == LAW.E
