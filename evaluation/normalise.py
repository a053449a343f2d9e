"""Prompts in their own units: x and y over the scale of the pairs seen so far, and the answer back.

A model that reads them so is equivariant to x · c and w · c, without training.

own, unit = in_own_units("whiten", prompts, prompts, k=12, divisor=task.divisor)
"""

import numpy as np
import torch
from torch import Tensor

from looplab.conf.mistakes import ConfigError
from looplab.models import Model
from looplab.tasks import Prompts, Task

from .errors import ErrorSettings, model_errors
from .kept import Arrays

_OF_LAST_QUERY = ("by_loop", "state_change", "prediction_change")  # [B, loops]
_NO_ERRORS = ("state_change", "prediction_change", "loops_used")


def check_normalise(kind: str, task: Task) -> None:
    """Raises ConfigError for a task whose pairs have no scale."""
    if kind != "none" and task.loss != "squared_error":
        reason = "its y are classes" if task.classes else "a text has no scale"
        raise ConfigError("evaluation.normalise", f"must be none for task={task.name}: {reason}")


def normalised_errors(
    model: Model,
    task: Task,
    prompts: Prompts,
    settings: ErrorSettings,
    queries: Prompts | None = None,
    *,
    kind: str,
) -> Arrays:
    """As `model_errors`, with query k and the k pairs before it in the units of these pairs: a pass
    for each k. Changes of state and prediction, and early exit by them, are in these units too."""
    asked = queries or prompts
    # The units depend on k, so that no pass serves two queries.
    by_k = []
    for k in range(asked.xs.shape[1]):
        rescaled, unit = in_own_units(kind, prompts, asked, k, task.divisor)
        # Of its queries the last one alone, number k, is in its own units.
        arrays = model_errors(model, task, rescaled, settings)
        squared_unit = unit.square().numpy()[:, None]  # back in the units of y
        for name in arrays.keys() - set(_NO_ERRORS):
            arrays[name] = (arrays[name] * squared_unit).astype(np.float32)
        by_k.append(arrays)
    last = by_k[-1]
    errors = {name: last[name] for name in _OF_LAST_QUERY}
    for name in last.keys() - errors.keys():
        errors[name] = np.stack([arrays[name][:, -1] for arrays in by_k], axis=1)
    return errors


def in_own_units(
    kind: str, prompts: Prompts, asked: Prompts, k: int, divisor: float
) -> tuple[Prompts, Tensor]:
    """The first k pairs and query k of `asked` in the units of these pairs, [B, k + 1]. The second
    value is the unit of y [B], float64. Without pairs, and where all their numbers are zero, the
    unit is 1.

    Over the pairs x_j² has mean 1 and y² has `divisor`, as in training. With kind `whiten` x is
    also multiplied by the inverse root of its shrunk second moment.
    """
    query = asked.xs[:, k : k + 1]
    answer = asked.ys[:, k : k + 1]
    xs = torch.cat((prompts.xs[:, :k], query), dim=1).double()
    ys = torch.cat((prompts.ys[:, :k], answer), dim=1).double()
    if k == 0:
        return Prompts(xs.float(), ys.float()), ys.new_ones(len(ys))
    xs = xs / _rms(xs[:, :k].flatten(1))[:, None, None]  # one scale for all coordinates
    if kind == "whiten":
        xs = xs @ whitening(xs[:, :k])
    unit = _rms(ys[:, :k] / divisor**0.5)
    return Prompts(xs.float(), (ys / unit[:, None]).float()), unit


def whitening(xs: Tensor) -> Tensor:
    """The inverse roots [B, d, d] of the shrunk second moments of inputs [B, k, d] whose numbers
    have mean square 1.

    The shrunk moment is (1 - ρ) S + ρ I, with S = XᵀX / k and ρ from the data alone. It is the
    oracle approximating shrinkage of Chen, Wiesel, Eldar and Hero (2010, arXiv 0907.4698, eq. 23),
    without its terms 2 / d, as in scikit-learn. Of isotropic inputs ρ is near 1 at every k, so that
    they stay what they are; k may be less than d.
    """
    count, dims = xs.shape[1:]
    moment = xs.mT @ xs / count
    square = moment.square().mean((1, 2))
    # The trace of S is d, as the numbers have mean square 1: scikit-learn's μ is 1 here.
    spread = square - 1 / dims  # of the eigenvalues, over d; 0 where all are alike
    shrinkage = torch.where(spread > 0, (square + 1) / ((count + 1) * spread), 1.0).clamp(max=1.0)
    identity = torch.eye(dims, dtype=xs.dtype, device=xs.device)
    shrunk = moment.lerp(identity.expand_as(moment), shrinkage[:, None, None])
    values, vectors = torch.linalg.eigh(shrunk)
    # V diag(λ^(-1/2)) Vᵀ: columns of V times their own factor.
    return (vectors * values.rsqrt()[:, None]) @ vectors.mT


def _rms(values: Tensor) -> Tensor:
    """The root mean square of each row [B, n]; 1 for a row of zeros."""
    rms = values.square().mean(1).sqrt()
    return torch.where(rms > 0, rms, 1.0)
