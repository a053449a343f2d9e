"""What is measured of a run, and from which seed."""

from typing import Any

import pytest
import torch
from torch import Generator, Tensor

from looplab.evaluation.bootstrap import numbers
from looplab.probing.dynamics import measure as dynamics_run
from looplab.probing.dynamics.measure import dynamics
from looplab.probing.dynamics.trajectory import Estimate, Map
from looplab.probing.settings import DynamicsSettings
from looplab.training import Run

pytestmark = pytest.mark.usefixtures("undrawn")


def test_both_factors_are_of_the_last_states_in_float64_from_the_runs_seed(
    tiny_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, int, torch.dtype]] = []

    def estimate(name: str, value: float) -> Any:
        def measured(function: Map, at: Tensor, generator: Generator) -> Estimate:
            seen.append((name, generator.initial_seed(), at.dtype))
            # One more loop from here is the residual of the last.
            gap = (function(at) - at).norm(dim=-1).mean(1)
            return Estimate(value * gap, gap, 8)

        return measured

    monkeypatch.setattr(dynamics_run, "spectral_norm", estimate("norm", 2.0))
    monkeypatch.setattr(dynamics_run, "spectral_radius", estimate("radius", 3.0))
    found = dynamics(DynamicsSettings(str(tiny_run.path), loops=6, prompts=20, seed=5))
    assert seen == [("norm", 5, torch.float64), ("radius", 5, torch.float64)] * 2
    (norm,) = numbers(found["contraction"]["spectral_norm"]["mean"])
    (radius,) = numbers(found["contraction"]["spectral_radius"]["mean"])
    assert radius / norm == pytest.approx(1.5)
    assert norm / 2 == pytest.approx(found["residual"]["absolute"]["mean"][-1])
