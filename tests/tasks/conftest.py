"""The function classes, one after another; samples with the parameters behind them, and checks of
random numbers, all at five standard errors.

Every seed is fixed, so that a check never flickers; five standard errors would be passed by all
but one in 1.7 million of correct samplers.
"""

import math
from typing import Any, cast

import pytest
import torch
from scipy import stats
from torch import Tensor

from looplab.tasks import Prompts, Task, make_task
from looplab.tasks.language import Language, corpus
from tests.conftest import HOME

FOLDER = HOME / "conf" / "task"
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml"))

# Those that read data, and random tables, whose rows are standardised together.
NO_FUNCTIONS = ("tables", "language", "tables_prior", "tables_prior_regression")


@pytest.fixture(params=[name for name in NAMES if name not in NO_FUNCTIONS])
def name(request: pytest.FixtureRequest) -> str:
    """The name of each function class, one after another."""
    return str(request.param)


SIGMAS = 5.0
LEAST_P = 2 * float(stats.norm.sf(SIGMAS))


def generator(seed: int = 0) -> torch.Generator:
    """A CPU generator with a fixed seed."""
    return torch.Generator().manual_seed(seed)


def assert_mean(samples: Tensor, expected: float) -> None:
    """The mean of independent `samples` is `expected`; the error is estimated from the samples."""
    samples = samples.double().flatten()
    error = samples.std() / math.sqrt(len(samples))
    distance = (samples.mean() - expected).abs()
    assert distance <= SIGMAS * error, f"mean {samples.mean():.5f} ± {error:.5f}, not {expected}"


def assert_frequencies(hits: Tensor, probability: float) -> None:
    """Each column of the booleans `hits` [n, …], independent along n, is true so often."""
    frequencies = hits.double().mean(0)
    error = math.sqrt(probability * (1 - probability) / len(hits))
    worst = (frequencies - probability).abs().max()
    assert worst <= SIGMAS * error, f"{frequencies} ± {error:.5f}, not {probability}"


def assert_uncorrelated(left: Tensor, right: Tensor) -> None:
    """Independent pairs have correlation 0; the error of an empirical one is 1 / sqrt(n)."""
    pairs = torch.stack((left.flatten(), right.flatten())).double()
    correlation = torch.corrcoef(pairs)[0, 1].abs()
    assert correlation <= SIGMAS / math.sqrt(pairs.shape[1]), f"correlation {correlation:.5f}"


def assert_normal(samples: Tensor, std: float = 1.0) -> None:
    """Independent `samples` are N(0, std²): Kolmogorov-Smirnov, and the first two moments."""
    scaled = samples.double().flatten() / std
    assert_mean(scaled, 0.0)
    assert_mean(scaled.square(), 1.0)
    assert stats.kstest(scaled.numpy(), "norm").pvalue > LEAST_P


def assert_independent_normals(samples: Tensor, std: float = 1.0) -> None:
    """The same of samples [n, …, m], which are uncorrelated along n and along m."""
    assert_normal(samples, std)
    assert_uncorrelated(samples[::2], samples[1::2])
    assert_uncorrelated(samples[..., ::2], samples[..., 1::2])


def assert_uniform(samples: Tensor) -> None:
    """Independent `samples` are uniform on [0, 1): Kolmogorov-Smirnov, moments and bounds."""
    samples = samples.double().flatten()
    assert samples.min() >= 0
    assert samples.max() < 1
    assert_mean(samples, 1 / 2)
    assert_mean((samples - 1 / 2).square(), 1 / 12)
    assert stats.kstest(samples.numpy(), "uniform").pvalue > LEAST_P


def assert_variance_per_prompt(ys: Tensor, expected: float) -> None:
    """The outputs ys [B, n] have mean 0 and this variance; outputs of one prompt share a function,
    so that the prompts are the independent samples."""
    assert_mean(ys.mean(1), 0.0)
    assert_mean(ys.square().mean(1), expected)


def sample_with_parameters(
    task: Task, batch: int, points: int, dims: int | None = None
) -> tuple[Prompts, Any]:
    """Prompts of one seed, and the parameters that their outputs were made from."""
    return task.draw(generator(), batch, points, dims)


def assert_same(prompts: Prompts, others: Prompts) -> None:
    """Bit for bit the same inputs and outputs."""
    assert torch.equal(prompts.xs, others.xs)
    assert torch.equal(prompts.ys, others.ys)


def language_task(**settings: object) -> Language:
    """Tokens of a text that its process has not read yet."""
    corpus._cached.cache_clear()
    return cast(Language, make_task("language", 1, settings=settings))
