"""Shifted inputs in the prompt's own units: tiny models, trained."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from looplab.conf.schema import EvaluationConfig, ShiftName
from looplab.evaluation.evaluated_run import EvaluatedRun
from looplab.experiments import normalised
from looplab.experiments.claims import find_claim
from looplab.experiments.evidence import Evidence
from looplab.experiments.normalised import kind_of_shift
from looplab.experiments.question import _plain
from looplab.tasks import SHIFTS
from looplab.training import Run, train
from tests.conftest import tiny_config
from tests.experiments.checks import check_panels, panels_of


def _run(folder: Path, family: Literal["looped", "standard"], seed: int) -> Run:
    config = tiny_config(folder)
    model = replace(config.model, family=family)
    if family == "standard":
        model = replace(model, n_layer=2, injection="none")
    task = replace(config.task, name="linear", settings={})
    training = replace(config.training, steps=2, log_every=1)
    return train(replace(config, task=task, model=model, training=training, seed=seed))


def test_scales_are_undone_and_claims_read_the_ratio_to_ridge(tmp_path: Path) -> None:
    runs = [_run(tmp_path, "looped", 0), _run(tmp_path, "looped", 1), _run(tmp_path, "standard", 0)]
    shifts: tuple[ShiftName, ...] = ("scaled_x_3", "scaled_w_0.5", "half_subspace")
    settings = EvaluationConfig(
        prompts=12, resamples=20, max_loops=4, baselines=("least_squares",), shifts=shifts
    )
    result = normalised.measure(runs, settings)
    assert [group["family"] for group in result["groups"]] == ["looped", "standard"]
    for group in result["groups"]:
        for name in ("scaled_x_3", "scaled_w_0.5"):
            found = group["shifts"][name]["over_training"]
            assert found["scale"].mean == pytest.approx(1, rel=1e-4)
            assert found["whiten"].mean == pytest.approx(1, rel=1e-4)
        assert abs(group["shifts"]["scaled_x_3"]["over_training"]["none"].mean - 1) > 1e-3
        assert group["cost"]["scale"]["mean"][0] == pytest.approx(1, rel=1e-4)
        assert len(group["cost"]["whiten"]["mean"]) == 7
    check_panels(panels_of(normalised, result))
    plain = _plain(result)
    members = [EvaluatedRun("", run.config, 500_000, {}) for run in runs]
    claim = find_claim("normalised_standard_half_subspace")
    found = claim.estimate(Evidence(members, {"normalised": plain}))
    ratio = plain["groups"][1]["shifts"]["half_subspace"]["over_ridge"]["whiten"]
    assert found.plain() == ratio


def test_what_a_shift_changes() -> None:
    kinds = {
        kind: {n for n in SHIFTS if kind_of_shift(n) == kind} for kind in ("scale", "covariance")
    }
    assert len(kinds["scale"]) == 8
    assert kinds["covariance"] == {"skewed_covariance", "half_subspace"}
