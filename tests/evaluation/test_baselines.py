"""Each baseline against a slow formula of its own, prompt by prompt."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Lasso
from sklearn.neighbors import KNeighborsRegressor
from torch import Generator

from evaluation.baselines import BASELINES, Floats
from tasks import make_task


@pytest.fixture(scope="module")
def prompts() -> tuple[Floats, Floats]:
    drawn = make_task("sparse_linear", 4).sample(Generator().manual_seed(0), 12, 11)
    return drawn.xs.double().numpy(), drawn.ys.double().numpy()


def predict(name: str, xs: Floats, ys: Floats) -> float:
    """One prediction for the last input of xs [k + 1, d] from outputs ys [k]."""
    examples, query = xs[:-1], xs[-1]
    if len(ys) == 0:
        return 0.0
    if name == "least_squares":
        return float(query @ np.linalg.lstsq(examples, ys, rcond=None)[0])
    if name == "averaging":
        return float(np.mean([y * (x @ query) for x, y in zip(examples, ys, strict=True)]))
    if name == "nearest_neighbours":
        model = KNeighborsRegressor(n_neighbors=min(3, len(ys))).fit(examples, ys)
        return float(model.predict(query[None])[0])
    model = Lasso(alpha=0.01, fit_intercept=False, max_iter=100_000).fit(examples, ys)
    return float(model.predict(query[None])[0])


@pytest.mark.parametrize("name", sorted(BASELINES))
def test_every_prefix_of_every_prompt(name: str, prompts: tuple[Floats, Floats]) -> None:
    xs, ys = prompts
    slow = [
        [predict(name, xs[b, : k + 1], ys[b, :k]) for k in range(ys.shape[1])]
        for b in range(len(ys))
    ]
    # lstsq and pinv differ by rounding, most where k = d and the matrix may be ill-conditioned.
    np.testing.assert_allclose(BASELINES[name](xs, ys), slow, rtol=1e-8, atol=1e-8)


def test_least_squares_falls_as_the_theory_says() -> None:
    """E err / d = (d - k) / d for k < d on dense w, and rounding beyond."""
    drawn = make_task("linear", 6).sample(Generator().manual_seed(1), 4000, 9)
    xs, ys = drawn.xs.double().numpy(), drawn.ys.double().numpy()
    errors = np.square(BASELINES["least_squares"](xs, ys) - ys) / 6
    for k in range(6):
        standard_error = errors[:, k].std() / np.sqrt(len(errors))
        assert abs(errors[:, k].mean() - (6 - k) / 6) < 5 * standard_error
    # ys are float32 products, so the fit is exact to float32's rounding.
    assert np.median(errors[:, 7:]) < 1e-10
