"""Small tables."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def table(rows: int, features: int, seed: int = 0) -> tuple[Floats, Floats]:
    """Rows X [rows, features] of different means and spreads, and a noisy linear function."""
    random = np.random.default_rng(seed)
    standard = random.normal(size=(rows, features))
    y = standard @ random.normal(size=features) + 0.1 * random.normal(size=rows)
    spreads = 10.0 ** np.linspace(-2, 3, features)
    return standard * spreads + 3 * spreads, 7 + 20 * y


def halves(rows: int, features: int, seed: int = 0) -> tuple[Floats, NDArray[np.int64]]:
    """The same with labels: 1 where the function is above its median."""
    X, y = table(rows, features, seed)
    return X, (y > np.median(y)).astype(np.int64)
