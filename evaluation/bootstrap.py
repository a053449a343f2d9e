"""Bootstrap intervals of a mean over prompts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Interval(NamedTuple):
    """A mean over prompts and its 90 % interval, each of shape [...]."""

    mean: Floats
    low: Floats
    high: Floats

    def to_json(self) -> dict[str, list[float]]:
        return {name: values.tolist() for name, values in self._asdict().items()}


def bootstrap(errors: NDArray[np.floating], resamples: int, seed: int) -> Interval:
    """Mean over the first axis of errors [prompts, ...], with the 5th and 95th percentile of the
    means of `resamples` resamples of the prompts.

    A resample is its count of each prompt, so that all means are one product of matrices. The same
    seed resamples the same prompts, which makes two models' intervals comparable.
    """
    prompts = len(errors)
    flat = errors.reshape(prompts, -1).astype(np.float64)
    uniform = np.full(prompts, 1 / prompts)
    counts = np.random.default_rng(seed).multinomial(prompts, uniform, size=resamples)
    means = counts @ flat / prompts
    low, high = np.percentile(means, (5, 95), axis=0)
    shape = errors.shape[1:]
    return Interval(flat.mean(0).reshape(shape), low.reshape(shape), high.reshape(shape))
