"""The claim on numbers of loops that are drawn anew in training."""

import numpy as np
import pytest

from looplab.experiments.claims import Evidence, find_claim, judge

from .claims.scenarios import drawn_loops


def test_loops_before_b_and_beyond_three_times_as_many_do_not_count() -> None:
    claim, evidence = find_claim("stopping_drawn_loops_level_the_error"), drawn_loops(0.5)
    for member in evidence.members:
        by_loop = member.arrays["by_loop"]
        far = np.full((len(by_loop), 3), 7.0)
        changed = np.concatenate((by_loop[:, :5] + 9, by_loop[:, 5:], far), axis=1)
        member.arrays["by_loop"] = changed  # type: ignore[index]
    found = judge(claim, Evidence(evidence.members), scale="small", command="")
    assert found["mean"] == pytest.approx(0.5)
