"""The claim on numbers of loops that are drawn anew in training."""

from __future__ import annotations

import numpy as np
import pytest

from looplab.experiments.claims import Evidence, Measured, find_claim, judge
from looplab.experiments.definition import load, members_of


@pytest.mark.parametrize(("drawn", "verdict"), [(0.1, "holds"), (10.0, "fails")])
def test_a_level_error_holds_and_a_rising_one_fails(drawn: float, verdict: str) -> None:
    """Errors rise linearly beyond b loops, `drawn` times as far where loops were drawn."""
    runs = []
    for member in members_of(load("stopping"), "small"):
        config = member.config
        far = np.clip(np.arange(18) - 5, 0, None) * (1 + 0.01 * config.seed) / 100
        far = far * (1.0 if config.loops.sampling == "none" else drawn)
        arrays = {"by_loop": 0.1 + np.tile(far, (8, 1)), "model_at_b": np.full((8, 7), 0.1)}
        runs.append(Measured(member.label, config, config.training.steps, arrays))
    found = judge(
        find_claim("stopping_drawn_loops_level_the_error"),
        Evidence(runs),
        scale="small",
        command="",
    )
    assert (found["verdict"], found["seeds"]) == (verdict, 3)
    assert found["mean"] == pytest.approx(drawn**2)
