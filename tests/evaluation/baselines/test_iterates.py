"""Iterates of solvers: against SciPy, closed forms and direct solutions."""

from itertools import islice

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse.linalg

from looplab.evaluation.baselines.iterates import (
    conjugate_gradients,
    gradient_descent,
    newton,
    normal_equations,
    predictions,
)
from looplab.evaluation.bootstrap import Floats
from looplab.tasks.least_squares import least_squares, ridge


@pytest.fixture
def pairs() -> tuple[Floats, Floats]:
    random = np.random.default_rng(0)
    xs = random.standard_normal((6, 11, 4)) * np.array([1.0, 0.7, 0.5, 1.3])
    return xs, np.einsum("bnd,bd->bn", xs, random.standard_normal((6, 4)))


@pytest.mark.parametrize("method", ["gradient_descent", "conjugate_gradients", "newton"])
@pytest.mark.parametrize("penalty", [0.0, 0.5])
def test_each_method_converges_to_least_squares_and_ridge(
    pairs: tuple[Floats, Floats], method: str, penalty: float
) -> None:
    xs, ys = pairs
    equations = normal_equations(xs, ys, penalty)
    rate = 1.9 / float(np.linalg.eigvalsh(equations.matrix).max())
    weights = {
        "gradient_descent": lambda: gradient_descent(equations, rate),
        "conjugate_gradients": lambda: conjugate_gradients(equations),
        "newton": lambda: newton(equations),
    }[method]()
    steps = {"gradient_descent": 6000, "conjugate_gradients": 12, "newton": 80}[method]
    expected = ridge(xs, ys, xs, penalty) if penalty else least_squares(xs, ys, xs)
    last = predictions(xs, weights, [steps])[-1]
    # Prefixes of about d pairs have condition numbers of thousands: gradient descent is slow there.
    rows = slice(7, None) if method == "gradient_descent" else slice(None)
    np.testing.assert_allclose(last[:, rows], expected[:, rows], atol=1e-6)


def test_conjugate_gradients_make_scipys_steps(pairs: tuple[Floats, Floats]) -> None:
    equations = normal_equations(*pairs)
    ours = np.stack(list(islice(conjugate_gradients(equations), 4)))
    for b, k in ((0, 10), (3, 6), (5, 2)):
        steps: list[Floats] = []
        scipy.sparse.linalg.cg(
            equations.matrix[b, k], equations.right[b, k],
            rtol=1e-14, maxiter=3, callback=lambda w, steps=steps: steps.append(w.copy()),
        )  # fmt: skip
        for step, expected in enumerate(steps, start=1):
            np.testing.assert_allclose(ours[step, b, k], expected, atol=1e-10)


def test_gradient_descent_is_its_closed_form() -> None:
    random = np.random.default_rng(1)
    xs, w = random.standard_normal((3, 9, 3)), random.standard_normal((3, 3))
    equations = normal_equations(xs, np.einsum("bnd,bd->bn", xs, w))
    ours = np.stack(list(islice(gradient_descent(equations, 0.02), 6)))
    for b in range(3):
        contraction = np.eye(3) - 0.02 * equations.matrix[b, 8]
        for step in (0, 1, 5):
            expected = w[b] - np.linalg.matrix_power(contraction, step) @ w[b]
            np.testing.assert_allclose(ours[step, b, 8], expected, atol=1e-12)
