"""The plateau: the Bayes error over all prefixes; courses of training whose turning points are
chosen, and the quantities of real snapshots."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.load import load_run
from looplab.experiments import plateau
from looplab.experiments.plateau import Quantities, bayes_error, compare, trajectory
from looplab.probing.attention import recorded_shares
from looplab.training import train
from looplab.training.run_folder.checkpoint import snapshots_of
from looplab.training.validation import evaluation_prompts
from tests.experiments.checks import panels_of
from tests.training.tiny import tiny

_SETTINGS = EvaluationConfig(prompts=16, resamples=40)
_STEPS = (0, 10, 20, 30, 40)
_FALL = (1.0, 1.0, 0.5, 0.0, 0.0)  # half of it is done at step 20, a tenth at step 12


def course(
    error: Any = _FALL,
    attention: Any = (0.1, 0.6, 0.9, 1.1, 1.1),
    cosine: Any = (0.0, 0.9, 0.4, 0.2, 0.2),
) -> Quantities:
    """What snapshots show: two seeds of 16 prompts, all alike."""
    rows = np.array([error, attention, cosine, np.ones(len(_STEPS))])
    return Quantities(*np.broadcast_to(rows[:, None, None], (4, 2, 16, len(_STEPS))))


def mean(found: Any) -> float:
    assert found.low - 1e-9 <= found.mean <= found.high + 1e-9
    return float(found.mean)


def test_bayes_errors_by_hand() -> None:
    assert bayes_error(3, 7) == pytest.approx((1 + 2 / 3 + 1 / 3) / 7)
    assert bayes_error(4, 2) == pytest.approx((1 + 3 / 4) / 2)  # the prompt ends before it is known
    assert bayes_error(1, 5) == pytest.approx(1 / 5)


def test_turning_points() -> None:
    later = (1.0, 1.0, 1.0, 0.5, 0.0)
    result = compare({"muon": course(), "adam": course(later)}, _STEPS, 0.2, _SETTINGS)
    muon, adam = result["groups"]
    assert (muon["optimizer"], adam["optimizer"]) == ("muon", "adam")
    assert mean(result["muon_over_adam"]) == pytest.approx(20 / 30)
    assert mean(muon["attention_done"]) == pytest.approx(0.56)  # at step 12: .6 + .2 · .3
    assert mean(muon["parallel"]) == pytest.approx(0.8)
    assert [len(panel.curves) for panel in panels_of(plateau, result)] == [2, 2, 2]


def test_the_quantities_are_those_of_the_evaluation_and_of_a_count_by_hand(tmp_path: Path) -> None:
    run = train(tiny(tmp_path, optimizer="muon", snapshots=(0, 20, 60)))
    prompts = evaluation_prompts(run.task, 16, 5, _SETTINGS.seed)
    found = trajectory(run, [0, 20, 60], prompts, _SETTINGS)
    for place, path in enumerate(snapshots_of(run.path).values()):
        model = load_run(path).model
        *_, (state, predictions) = model.unroll(prompts, 4)
        error = (predictions - prompts.ys).square().mean(1) / run.task.divisor
        np.testing.assert_allclose(found.error[:, place], error, rtol=1e-5)
        states = state.stream[:, ::2]
        pairs = [
            torch.cosine_similarity(states[:, i], states[:, j])
            for i in range(5)
            for j in range(5)
            if i != j
        ]
        np.testing.assert_allclose(
            found.cosine[:, place], torch.stack(pairs).mean(0), rtol=1e-4, atol=1e-5
        )
    zero = prompts.ys.square().mean(1) / run.task.divisor
    np.testing.assert_allclose(found.zero[:, 0], zero, rtol=1e-5)
    with recorded_shares(model) as shares:
        list(model.unroll(prompts, 4))
    at_end = torch.stack(shares).mean(-1)
    assert found.attention[:, 2].mean() == pytest.approx(float(at_end.max()), rel=1e-4)
