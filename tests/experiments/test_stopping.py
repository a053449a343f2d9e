"""The claim on numbers of loops that are drawn anew in training."""

from __future__ import annotations

import numpy as np
import pytest

from looplab.experiments.claims import Evidence, find_claim, judge

from .claims.scenarios import drawn_loops


@pytest.mark.parametrize(("ratio", "verdict"), [(0.01, "holds"), (100.0, "fails")])
def test_the_ratio_of_variances_over_loops_is_judged_over_seeds(ratio: float, verdict: str) -> None:
    claim = find_claim("stopping_drawn_loops_level_the_error")
    found = judge(claim, drawn_loops(ratio), scale="small", command="")
    assert (found["verdict"], found["seeds"]) == (verdict, 3)
    assert found["mean"] == pytest.approx(ratio)


def test_loops_before_b_and_beyond_three_times_as_many_do_not_count() -> None:
    claim, evidence = find_claim("stopping_drawn_loops_level_the_error"), drawn_loops(0.5)
    for member in evidence.members:
        by_loop = member.arrays["by_loop"]
        far = np.full((len(by_loop), 3), 7.0)
        changed = np.concatenate((by_loop[:, :5] + 9, by_loop[:, 5:], far), axis=1)
        member.arrays["by_loop"] = changed  # type: ignore[index]
    found = judge(claim, Evidence(evidence.members), scale="small", command="")
    assert found["mean"] == pytest.approx(0.5)
