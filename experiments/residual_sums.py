"""The sums over loops that the theorems of arXiv 2606.18524 are about.

They are of a ReLU layer's activations and branches, and of a new transformer's increments. Nothing
is trained."""

import math
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.statistics import Estimate, over_seeds
from looplab.models.model import residual_scale
from looplab.show.panel import Curve, Panel, mean_of_seeds
from looplab.training.run_folder.run import Run

from .evidence import Evidence
from .near_init import (
    COSINE_LAYERS,
    COSINE_LOOPS,
    INITS,
    STACKS,
    Stack,
    by_seed,
    loop_curves,
    slopes,
    token_model,
    values_of,
)
from .residual_scaling_toy import TOY_WIDTH, layers

_LOOPS = (4, 8, 16, 32, 64)
_LAYERS = (1, 2, 4, 8)
_WEAK = 1e-3  # the strength of branches near initialisation
_SMALL = 0.1  # the λ that Theorem 3's sharpness calls small
_OF_LOOPS = {
    "lower": "length of the activations' sum / its least by Lemma 4",
    "upper": "length of the activations' sum / its most by Lemma 4",
    "cross": "|inner product of the start with the branches' sum|, twice",
    "pairs": "squared length of the branches' sum",
}


def measure(runs: Sequence[Run], settings: EvaluationConfig, seeds: int = 3) -> dict[str, Any]:
    """What sums are made of; it needs no runs. All is over seeds, of states of this `width`.

    By `loops`, with ε = 1/R: the `cosines` between activations, mean and least over pairs; and the
    length of their sum over what Lemma 4 says it is at least (`lower`) and at most (`upper`).
    With ε = .001: the `cross` and `pairs` terms of the squared norm over d. By number of layers,
    with ε = .1/(R√U): the variance of all branches' `sum`. Of a new transformer's increments,
    looped and not shared: the `share` of pairs of different ones in the squared length of their
    sum.
    """
    found: dict[str, list[Any]] = {}
    for seed in range(seeds):
        for name, values in _one_seed(seed).items():
            found.setdefault(name, []).append(values)
    shares: dict[str, Any] = {}
    for sharing, (_, shared) in STACKS.items():
        shares[sharing] = by_seed([share_of_pairs(shared, seed) for seed in range(seeds)])
    return {
        "width": TOY_WIDTH,
        "loops": list(_LOOPS),
        "layers": list(_LAYERS),
        **{name: by_seed(values) for name, values in found.items()},
        "share": shares,
    }


def panels(found: Mapping[str, Any]) -> list[Panel]:
    """The cosines, the terms of sums by loops, and the variance of all branches' sum by layers."""
    loops = found["loops"]
    title = f"h ← h + ε W relu(h), d = {found['width']}"
    cosines = values_of(found["cosines"])  # [seeds, R, mean and least]
    curves = []
    for place, name in enumerate(("mean", "least")):
        curves.append(Curve.of(name, "looped", mean_of_seeds(cosines[..., place]), name=name))
    drawn = [Panel("sums-cosines", title, "loops R", "cosine", loops, curves, log="x")]
    for name, label in _OF_LOOPS.items():
        curve = Curve.of(label, "looped", mean_of_seeds(values_of(found[name])), name=name)
        drawn.append(Panel(f"sums-{name}", title, "loops R", label, loops, [curve], log="xy"))
    sums = values_of(found["sum"])  # [seeds, U, R]
    by_layers = dict(zip(found["layers"], sums.swapaxes(0, 1), strict=True))
    axes = ("loops R", "variance of all branches' sum")
    curves = loop_curves(by_layers, "U")
    drawn.append(Panel("sums-branches", title, *axes, loops, curves, log="xy"))
    return drawn


def looped(
    stack: Sequence[Tensor], start: Tensor, loops: int, scale: float
) -> tuple[Tensor, Tensor]:
    """The activations relu(h) and the branches W relu(h) of a looped stack, [R U, d] each."""
    h = start
    activations = []
    branches = []
    for _ in range(loops):
        for layer in stack:
            activation = h.relu()
            branch = layer @ activation
            activations.append(activation)
            branches.append(branch)
            h = h + scale * branch
    return torch.stack(activations), torch.stack(branches)


def _one_seed(seed: int) -> dict[str, Any]:
    """What is measured of the ReLU layers of a seed, by loops."""
    start, *stack = islice(layers(TOY_WIDTH, seed), 1 + max(_LAYERS))
    values: dict[str, list[Any]] = {name: [] for name in ("cosines", *_OF_LOOPS)}
    for loops in _LOOPS:
        activations, _ = looped(stack[:1], start, loops, residual_scale("linear", loops, 1))
        values["cosines"].append(_cosines(activations))
        lower, upper = lemma4(activations)
        values["lower"].append(lower)
        values["upper"].append(upper)
        _, branches = looped(stack[:1], start, loops, _WEAK)
        total = _WEAK * branches.sum(0)
        values["cross"].append(float(2 * (start @ total).abs() / TOY_WIDTH))
        values["pairs"].append(float(total @ total / TOY_WIDTH))
    sums = []
    for U in _LAYERS:
        sums.append([_variance(stack[:U], start, loops) for loops in _LOOPS])
    return {**values, "sum": sums}


def _cosines(activations: Tensor) -> list[float]:
    """The mean and the least cosine of two different activations."""
    units = activations / torch.linalg.vector_norm(activations, dim=1, keepdim=True)
    cosines = units @ units.T
    apart = cosines[~torch.eye(len(units), dtype=torch.bool)]
    return [float(apart.mean()), float(apart.min())]


def lemma4(activations: Tensor) -> tuple[float, float]:
    """The length of the sum of vectors with entries ≥ 0, [R, d], over R times the least mass of
    one, the mean of its entries times √d, and over R times the largest length."""
    count, width = activations.shape
    length = torch.linalg.vector_norm(activations.sum(0))
    masses = activations.mean(1) * math.sqrt(width)
    lengths = torch.linalg.vector_norm(activations, dim=1)
    return float(length / (count * masses.min())), float(length / (count * lengths.max()))


def _variance(stack: Sequence[Tensor], start: Tensor, loops: int) -> float:
    """The variance of an entry of the unscaled sum of all branches, with a small λ."""
    scale = residual_scale("factored", loops, len(stack), _SMALL)
    _, branches = looped(stack, start, loops, scale)
    return float(branches.sum(0).square().mean())


@torch.no_grad()
def share_of_pairs(shared: bool, seed: int) -> float:
    """The share of pairs of different increments in the squared length of the increments' sum, of a
    new transformer without residual scaling, over its tokens."""
    init = INITS["strong"]._replace(layers=COSINE_LAYERS)
    model, tokens = token_model(init, Stack(COSINE_LOOPS, shared, "none"), seed)
    streams = torch.stack([stream.double() for stream in model.streams(tokens)])
    increments = streams.diff(dim=0)
    whole = increments.sum(0).square().sum()
    return float(1 - increments.square().sum() / whole)


def slope_over_loops(evidence: Evidence, term: str) -> Estimate:
    """The slope of a term's logarithm over log R."""
    result = evidence.result("residual_sums")
    return _new(over_seeds(slopes(result["loops"], values_of(result[term]), 1)), result)


def slope_of_sum_over_loops(evidence: Evidence) -> Estimate:
    """The slope of the log variance of all branches' sum over log R, of the number of layers at
    which it is farthest from 2."""
    result = evidence.result("residual_sums")
    by_layers = slopes(result["loops"], values_of(result["sum"]), 1)  # [seeds, U]
    return _new(over_seeds(_farthest(by_layers, 2.0)), result)


def slope_of_sum_over_layers(evidence: Evidence) -> Estimate:
    """The slope of the log variance of all branches' sum over log U, of the number of loops at
    which it is farthest from 1."""
    result = evidence.result("residual_sums")
    sums = values_of(result["sum"]).swapaxes(1, 2)  # [seeds, R, U]
    return _new(over_seeds(_farthest(slopes(result["layers"], sums, 1), 1.0)), result)


def _farthest(values: Floats, center: float) -> Floats:
    """Of each row of values [seeds, cells] the one that is farthest from a number, [seeds]."""
    places = np.abs(values - center).argmax(1)
    return np.asarray(values[np.arange(len(values)), places])


def least_activation_cosine(evidence: Evidence) -> Estimate:
    """The least cosine of two activations of different loops, of all numbers of loops."""
    result = evidence.result("residual_sums")
    return _new(over_seeds(values_of(result["cosines"])[..., 1].min(1)), result)


def activation_cosine_growth(evidence: Evidence) -> Estimate:
    """The mean cosine of two activations at the most loops over that at the fewest."""
    result = evidence.result("residual_sums")
    means = values_of(result["cosines"])[..., 0]
    return _new(over_seeds(means[:, -1] / means[:, 0], log=True), result)


def least_over_bound(evidence: Evidence) -> Estimate:
    """The least length of the activations' sum over what it is at least, of all numbers of
    loops."""
    result = evidence.result("residual_sums")
    return _new(over_seeds(values_of(result["lower"]).min(1), log=True), result)


def largest_over_bound(evidence: Evidence) -> Estimate:
    """The largest length of the activations' sum over what it is at most, of all numbers of
    loops."""
    result = evidence.result("residual_sums")
    return _new(over_seeds(values_of(result["upper"]).max(1), log=True), result)


def pair_share(evidence: Evidence, sharing: str) -> Estimate:
    """The share of pairs of different increments in the squared length of their sum."""
    result = evidence.result("residual_sums")
    estimate = over_seeds(values_of(result["share"][sharing]))
    return estimate._replace(steps=0, size=f"U = {COSINE_LAYERS}, R = {COSINE_LOOPS}")


def _new(estimate: Estimate, result: Mapping[str, Any]) -> Estimate:
    """The estimate with the size of the result's layers, which are untrained."""
    return estimate._replace(steps=0, size=f"d = {result['width']}")
