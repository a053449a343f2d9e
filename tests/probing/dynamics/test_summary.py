"""Plain values of measurements made by hand."""

from typing import Any

import numpy as np
import pytest
import torch

from looplab.evaluation.bootstrap import numbers
from looplab.probing.dynamics.measure import contraction, summary
from looplab.probing.dynamics.trajectory import Estimate, Movements

NAN = np.nan
PROMPTS, LOOPS, NEAR = 40, 3, 2
RNG = np.random.default_rng(0)
ARRAYS = {
    "raw": RNG.random((PROMPTS, LOOPS + 1)),
    "stream": RNG.random((PROMPTS, LOOPS + 1)),
    "absolute": RNG.random((PROMPTS, LOOPS)),
    "relative": RNG.random((PROMPTS, LOOPS)),
    "cosines": RNG.random((PROMPTS, NEAR, NEAR)),
    "residual": RNG.random((PROMPTS, LOOPS)),
    "relative_residual": RNG.random((PROMPTS, LOOPS)),
}


class Measured(Movements):
    """What is given."""

    def __init__(self, **arrays: Any) -> None:
        self._given = ARRAYS | arrays

    def arrays(self) -> dict[str, Any]:
        return {name: values for name, values in self._given.items() if values is not None}


def test_prompts_that_rest_are_told_from_those_that_do_not() -> None:
    """A quarter rests at the end, of which all but one have moved before."""
    relative = np.full((PROMPTS, LOOPS), 0.5) + np.arange(PROMPTS)[:, None]
    relative[:10, -1] = 9e-7
    relative[10, -1], relative[0] = 2e-6, 9e-7
    found = summary(Measured(relative_residual=relative), seed=0)["residual"]
    assert found["at_rest"]["below"] == 1e-6
    assert found["at_rest"]["mean"] == [0.25]
    (low,), (high,) = (numbers(found["at_rest"][part]) for part in ("low", "high"))
    assert 0.1 < low < 0.25 < high < 0.4
    parts = [numbers(found["over_prompts"][p]) for p in ("percentile_5", "median", "percentile_95")]
    np.testing.assert_allclose(parts, np.quantile(relative, (0.05, 0.5, 0.95), 0))


def test_pairs_are_those_of_different_increments_that_all_have_an_angle() -> None:
    cosines = np.ones((4, 3, 3))
    cosines[:, 0, 1] = cosines[:, 1, 0] = [0.1, 0.2, 0.3, 0.4]
    cosines[:, 1, 2] = cosines[:, 2, 1] = [0.8, 0.8, NAN, 0.8]
    cosines[:, 0, 2] = cosines[:, 2, 0] = [0.5, 0.6, 0.7, 0.8]
    found = summary(Measured(cosines=cosines), seed=0)["cosines"]
    assert found["mean"][0] == pytest.approx([1, 0.25, 0.65])
    assert found["mean"][2] == [pytest.approx(0.65), None, 1]
    assert found["pairs"] is not None
    assert found["pairs"]["mean"] == [pytest.approx(0.45)]
    resting = np.where(np.eye(3, dtype=bool), 1.0, NAN)
    assert summary(Measured(cosines=resting[None]), seed=0)["cosines"]["pairs"] is None


def test_contraction_tells_norm_from_radius() -> None:
    """Over batches; a loop may stretch at once and yet come to rest."""
    norms = Estimate(torch.tensor([2.0, 3.0]), torch.tensor([1e-7, 1e-9]), 30)
    radii = Estimate(torch.tensor([0.5, 1.5]), torch.tensor([1e-4, 2e-4]), 40)
    more = Estimate(torch.tensor([0.75]), torch.tensor([1e-3]), 32)
    found = contraction([norms, more], [radii, more], seed=0)
    assert found["spectral_norm"]["by_prompt"] == [2.0, 3.0, 0.75]
    assert found["spectral_norm"]["mean"] == [pytest.approx(5.75 / 3)]
    assert found["spectral_radius"]["by_prompt"] == [0.5, 1.5, 0.75]
    assert found["spectral_radius"]["iterations"] == 40
    assert found["spectral_radius"]["remaining_change"] == pytest.approx(1e-3)
    assert found["below_one"]["mean"] == [pytest.approx(2 / 3)]
