"""The binding of y to its x: courses of training whose turning points are chosen, and real runs
that differ in their tokens."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from looplab.conf.mistakes import RunError
from looplab.conf.schema import EvaluationConfig
from looplab.experiments import binding
from looplab.experiments.binding import HEAD, Course, _steps, measure
from looplab.experiments.plateau import Quantities
from looplab.training import train
from looplab.training.run_folder.run import Run
from tests.experiments.checks import panels_of
from tests.training.tiny import tiny

_SETTINGS = EvaluationConfig(prompts=16, resamples=40)
_STEPS = (0, 10, 20, 40)


def course(*error: float) -> Course:
    """Two seeds of 16 prompts, all alike; predicting zero has an error of 1, the best has 0."""
    nothing = np.zeros((2, 16, len(_STEPS)))
    return Course(Quantities(nothing + error, *[nothing] * 3), _STEPS, zero=1.0, least=0.0)


def test_turning_points() -> None:
    early, late, never = course(1, 0.5, 0, 0), course(1, 1, 0.5, 0), course(1, 1, 1, 0.9)
    assert _steps([[early]], 0.5, _SETTINGS).mean == pytest.approx(10)
    assert _steps([[early]], 0.1, _SETTINGS).mean == pytest.approx(2)
    assert _steps([[never]], 0.5, _SETTINGS).mean == pytest.approx(40)
    assert _steps([[early, late]], 0.5, _SETTINGS).mean == pytest.approx(10 / 20)
    rows = [[early, late], [late, never]]
    assert _steps(rows, 0.5, _SETTINGS).mean == pytest.approx((10 / 20 * 20 / 40) ** 0.5)
    lead = _steps([[early, late, never, late]], 0.5, _SETTINGS)  # 10/20 over 20/40
    assert lead.mean == pytest.approx(1)


def trained(folder: Path, optimizer: Any, tokens: Any, by_hand: bool = False) -> Run:
    config = tiny(folder, optimizer=optimizer, snapshots=(0, 20, 60), previous_token_head=by_hand)
    return train(replace(config, model=replace(config.model, tokens=tokens)))


def test_runs_are_compared_by_their_tokens(tmp_path: Path) -> None:
    runs = [
        trained(tmp_path, optimizer, tokens)
        for optimizer in ("muon", "adamw")
        for tokens in ("interleaved", "pairs")
    ]
    runs.append(trained(tmp_path, "muon", "interleaved", by_hand=True))
    found = measure(runs, _SETTINGS)
    assert [(each["optimizer"], each["tokens"]) for each in found["groups"]] == [
        *(("muon", "interleaved"), ("muon", "pairs"), ("muon", HEAD)),
        *(("adam", "interleaved"), ("adam", "pairs")),
    ]
    ratios = found["ratios"]
    assert {f"{HEAD} over pairs, half", "pairs over interleaved, tenth, adam"} <= ratios.keys()
    half = {(each["optimizer"], each["tokens"]): each["half"].mean for each in found["groups"]}
    for optimizer in ("muon", "adam"):
        expected = half[optimizer, "pairs"] / half[optimizer, "interleaved"]
        assert ratios[f"pairs over interleaved, half, {optimizer}"].mean == pytest.approx(expected)
    adam, muon = (ratios[f"pairs over interleaved, half, {each}"] for each in ("adam", "muon"))
    assert ratios["adam over muon"].mean == pytest.approx(adam.mean / muon.mean)
    assert len(panels_of(binding, found)) == 4
    with pytest.raises(RunError, match=r"train it again with training.snapshots"):
        measure([train(tiny(tmp_path / "without"))], _SETTINGS)
