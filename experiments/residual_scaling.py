"""'On the Residual Scaling of Looped Transformers' (arXiv 2606.18524): the ReLU layer of its
theorems, and its claims on models near their initialisation (Figures 2 to 4 and 9: `near_init.py`)
and on trained ones (Figures 5 to 8: `residual_scaling_trained.py`).

Evidence.results["stability"] has the results by figure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, cycle, islice, repeat
from typing import Any, Literal

import numpy as np
import torch
from torch import Generator, Tensor

from looplab.conf.build import build
from looplab.conf.setting import check_settings
from looplab.evaluation import load_run
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.panel import Curve, Panel, mean_of_seeds
from looplab.models.model import residual_scale
from looplab.training.progress import Progress

from .claims import Estimate, Evidence, Measured, NotMeasured, Paper
from .measuring import FigureOf, Measurement, Request, measure_figures
from .near_init import LABELS, Near, changes, cosines, norms, scaling_curves, with_errors
from .residual_scaling_trained import sweep, trained
from .statistics import absolute, over_seeds


def measure(request: Request) -> Measurement:
    """Measure the figures that the request's settings name."""

    def near(figure: Callable[[Near], dict[str, Any]]) -> FigureOf:
        def make(runs: Sequence[Measured], given: Mapping[str, Any]) -> dict[str, Any]:
            settings = build(Near, given)
            check_settings("settings.", settings)
            return figure(settings)

        return make

    return measure_figures(
        request,
        {
            "toy": near(toy),
            "norms": near(norms),
            "cosines": near(cosines),
            "changes": near(changes),
            "sweep": lambda runs, given: sweep(runs, "sweep"),
            "contrast": lambda runs, given: sweep(runs, "contrast"),
            "trained": lambda runs, given: trained(
                [load_run(run.path) for run in runs if run.path],
                [run.label for run in runs if run.path],
            ),
        },
    )


TOY_WIDTH = 1024
_ANGLES_AT = 16  # loops whose increments' cosines are taken
_LAYERS = (1, 4, 12)  # of the looped stacks of more than one layer
_HIGHEST = 1e3  # of the picture: exploding norms leave it


def toy(near: Near, width: int = TOY_WIDTH) -> dict[str, Any]:
    """h ← h + ε W relu(h) in float64, W with entries N(0, 1/d), h₀ of length √d; a looped stack
    repeats one W, a deep one draws a W for each layer (Theorems 1 and 2).

    Over seeds, by stack and scaling, of states of this width d: `norm`, ‖h_R‖/√d by loops, with the
    root of its mean square; `change`, that of the output by one update of random signs, over its
    rate; `cosine`, the mean over pairs of different increments of `angles_at` loops. `layers` has
    ‖h_R‖/√d of looped stacks of several layers, ε = 1/(R√U), by their number.
    """
    runs = []
    with Progress(near.seeds, "toy", "seed") as progress:
        for seed in near.all_seeds:
            runs.append(_one_seed(width, near.loops, seed))
            progress.update()

    parts = {
        part: {name: with_errors(np.array([run[part][name] for run in runs])) for name in curves}
        for part, curves in runs[0].items()
    }
    for curve in parts["norm"].values():
        root = np.sqrt((np.array(curve["by_seed"]) ** 2).mean(0))
        curve["root_mean_square"] = root.tolist()
    result = {
        "width": width,
        "seeds": near.seeds,
        "seed": near.seed,
        "loops": list(near.loops),
        "angles_at": _ANGLES_AT,
        **parts,
    }
    return {**result, "panels": _toy_panels(result)}


def _toy_panels(result: Mapping[str, Any]) -> list[Panel]:
    """Norms and changes by loops, those that explode as far as 1,000; the norms of stacks of
    several layers; and the cosines."""
    loops, title = result["loops"], f"h ← h + ε W relu(h), d = {result['width']}"

    def values(part: str, stack: str) -> dict[str, Any]:
        return {scaling: result[part][f"{stack} {scaling}"]["by_seed"] for scaling in LABELS}

    norms = [
        *scaling_curves(values("norm", "looped"), "looped, "),
        *scaling_curves(values("norm", "deep"), "not shared, "),
    ]
    layers = [
        Curve.of(f"U = {u}", "loops", mean_of_seeds(of["by_seed"]), number=int(u))
        for u, of in result["layers"].items()
    ]
    cosine = np.array([of["by_seed"] for of in result["cosine"].values()]).T
    moved = "change of the output by one update / η"
    limits, norm, several = (0.5, _HIGHEST), "‖h_R‖ / √d", "looped stacks of U layers, ε = 1/(R√U)"
    return [
        Panel(
            "toy-norm", title, "loops R", norm, loops, norms, log="xy", limits=limits, picture="toy"
        ),
        Panel(
            "toy-change", title, "loops R", moved, loops,
            scaling_curves(values("change", "looped"), "looped, "), log="xy", limits=limits,
            picture="toy",
        ),
        Panel("toy-layers", f"{title}, {several}", "loops R", norm, loops, layers, log="x"),
        Panel(
            "toy-cosines", f"{title}, mean over pairs of increments of {_ANGLES_AT} loops", "stack",
            "cosine", range(len(result["cosine"])),
            [Curve.of("cosine", "looped", mean_of_seeds(cosine))], x_names=[*result["cosine"]],
            bars=True,
        ),
    ]  # fmt: skip


def layers(width: int, seed: int) -> Iterator[Tensor]:
    """h₀ [d], then the weights [d, d] of one layer after another, endlessly."""
    generator = Generator().manual_seed(seed)
    h = torch.randn(width, generator=generator, dtype=torch.float64)
    yield h * (math.sqrt(width) / torch.linalg.vector_norm(h))
    while True:
        weights = torch.randn(width, width, generator=generator, dtype=torch.float64)
        yield weights.div_(math.sqrt(width))


def run(weights: Iterable[Tensor], start: Tensor, loops: Tensor, scales: Tensor) -> Tensor:
    """The last states [C, d] from the start [d], row c after loops[c] steps scaled by scales[c]."""
    h = start.repeat(len(loops), 1)
    for t, layer in zip(range(int(loops.max())), weights, strict=False):
        active = t < loops
        h[active] += scales[active, None] * (h[active].relu() @ layer.T)
    return h


def derivative(
    weights: Tensor, signs: Tensor, start: Tensor, loops: Tensor, scales: Tensor
) -> Tensor:
    """∂h_R/∂η [C, d] at η = 0 of the looped stack with W + η S/√d, for signs S [d, d]."""
    h, change = start.repeat(len(loops), 1), start.new_zeros(len(loops), len(start))
    direction = signs / math.sqrt(len(start))
    for t in range(int(loops.max())):
        active = t < loops
        state, scale = h[active], scales[active, None]
        increment = (change[active] * (state > 0)) @ weights.T + state.relu() @ direction.T
        change[active] += scale * increment
        h[active] += scale * (state.relu() @ weights.T)
    return change


def mean_cosine(weights: Iterable[Tensor], start: Tensor, count: int, scale: float) -> float:
    """The mean cosine over pairs of different increments W relu(h) among the first `count`."""
    h, units = start, list[Tensor]()
    for layer in islice(weights, count):
        increment = layer @ h.relu()
        units.append(increment / torch.linalg.vector_norm(increment))
        h = h + scale * increment
    cosines = torch.stack(units) @ torch.stack(units).T
    return float((cosines.sum() - cosines.trace()) / (count * (count - 1)))


def _one_seed(width: int, loops: Sequence[int], seed: int) -> dict[str, dict[str, Any]]:
    """The curves of one seed, by part and name."""
    source = layers(width, seed)
    start, *stack = islice(source, 1 + max(_ANGLES_AT, *_LAYERS))
    shared, counts = repeat(stack[0]), torch.tensor(loops).repeat(len(LABELS))
    scales = _scales([(scaling, r, 1) for scaling in LABELS for r in loops])
    generator = Generator().manual_seed(2**62 + seed)  # a stream of random numbers of its own
    signs = torch.randint(2, (width, width), generator=generator).double().mul_(2).sub_(1)

    def curves_of(stack: str, states: Tensor) -> dict[str, Any]:
        by_scaling = _lengths(states).view(len(LABELS), -1).tolist()
        return {f"{stack} {name}": of for name, of in zip(LABELS, by_scaling, strict=True)}

    return {
        "norm": curves_of("looped", run(shared, start, counts, scales))
        | curves_of("deep", run(chain(stack, source), start, counts, scales)),
        "change": curves_of("looped", derivative(stack[0], signs, start, counts, scales)),
        "cosine": {
            "deep none": mean_cosine(stack, start, _ANGLES_AT, 1.0),
            "looped none": mean_cosine(shared, start, _ANGLES_AT, 1.0),
            "looped linear": mean_cosine(shared, start, _ANGLES_AT, 1 / _ANGLES_AT),
        },
        "layers": {
            # A step is a layer here: R loops are R U steps.
            str(u): _lengths(
                run(
                    cycle(stack[:u]),
                    start,
                    u * torch.tensor(loops),
                    _scales([("factored", r, u) for r in loops]),
                )
            ).tolist()
            for u in _LAYERS
        },
    }


def _scales(rows: Sequence[tuple[str, int, int]]) -> Tensor:
    """ε of each (scaling, loops, layers)."""
    return torch.tensor([residual_scale(*row) for row in rows], dtype=torch.float64)


def _lengths(states: Tensor) -> Tensor:
    """The length of states [C, d] over √d: [C]."""
    return torch.linalg.vector_norm(states, dim=1) / math.sqrt(states.shape[1])


_BOUNDED = 1.25  # a norm or a change within a quarter, from the fewest loops to the most
_ACROSS = "from the fewest loops to the most"
_HALF = 0.25  # slopes 1, 1/2 and 0 are told apart halfway between them


_of_paper = Paper("arXiv 2606.18524", "scaling_", steps=0, size="U = 12, d = 768").claim

# Figure 2: the norm of the stream after the first ten steps. A normed stream grows like the square
# root of the loops at least where it grows: over 64 loops by far more than half.
_NORMS: dict[str, tuple[str, str, float, Literal["above", "below"], str, str]] = {
    "fig2_none_grows": ("looped", "none", 2.0, "above", "grows with the loops", ""),
    "fig2_sqrt_grows": ("looped", "sqrt", 1.5, "above", "still grows with the loops", ""),
    "fig2_linear_is_flat": ("looped", "linear", _BOUNDED, "below", "does not grow", "flat"),
    "fig2_deep_sqrt_is_flat": ("non_shared", "sqrt", _BOUNDED, "below", "does not grow", "flat"),
}
_SCALED = {"none": "unscaled", "sqrt": "scaled by 1/√R", "linear": "scaled by 1/R"}
_STACK = {"looped": "a looped stack", "non_shared": "an equally deep stack of layers of its own"}


def _norm_claim(name: str) -> None:
    sharing, scaling, line, holds_if, what, published = _NORMS[name]

    @_of_paper(
        name,
        f"With residual branches {_SCALED[scaling]}, the norm of {_STACK[sharing]} {what}.",
        "Figure 2",
        f"norm of the stream after the first steps, ratio {_ACROSS}",
        line,
        holds_if,
        published,
        steps=10,
    )
    def norm(evidence: Evidence) -> Estimate:
        result = evidence.result("stability", "norms")
        norms = _by_seed(result["norm"][sharing][scaling])[:, :, -1]
        return _sized(over_seeds(norms[:, -1] / norms[:, 0], log=True), result, result["steps"])


for _name in _NORMS:
    _norm_claim(_name)


@_of_paper(
    "fig3_looped_increments_agree",
    "The increments of a new looped stack point in one direction.",
    "Figure 3",
    "mean cosine of two different increments, looped",
    0.3,  # the least of the published range of trained ones; independent ones have 0 ± .01
    "above",
    "densely positive",
)
def looped_increments_agree(evidence: Evidence) -> Estimate:
    """Over pairs of different loops."""
    result = evidence.result("stability", "cosines")
    return _sized(over_seeds(_by_seed(result["apart"]["looped"])), result, 0)


@_of_paper(
    "fig3_deep_increments_do_not",
    "The increments of layers that share no weights are orthogonal.",
    "Figure 3",
    "mean cosine of two different increments, non-shared",
    0.1,
    "below",
    "near 0",
)
def deep_increments_do_not(evidence: Evidence) -> Estimate:
    """Over pairs of different blocks."""
    result = evidence.result("stability", "cosines")
    return _sized(over_seeds(_by_seed(result["apart"]["non_shared"])), result, 0)


def _slopes(evidence: Evidence, steps: slice) -> tuple[dict[str, Floats], Any]:
    """For each scaling the slope of log change of the output before the final norm over log R, the
    mean over these steps, [seeds]."""
    result = evidence.result("stability", "changes")
    slopes = result["slope"]["raw"]
    return {name: _by_seed(slopes[name])[:, steps].mean(1) for name in _SCALED}, result


def _slope_claims(figure: int, steps: slice, when: str, count: int) -> None:
    of_figure = f"Figure {figure}"

    @_of_paper(
        f"fig{figure}_none_moves_more",
        f"Unscaled, {when} moves the output more the more loops there are.",
        of_figure,
        "slope of log change over log R, none less sqrt",
        _HALF,
        "above",
        "1/2 (∝ R against √R)",
        count,
    )
    def none_moves_more(evidence: Evidence) -> Estimate:
        slopes, result = _slopes(evidence, steps)
        return _sized(over_seeds(slopes["none"] - slopes["sqrt"]), result, count)

    @_of_paper(
        f"fig{figure}_sqrt_moves_more",
        f"Scaled by 1/√R, {when} still moves the output more the more loops there are.",
        of_figure,
        "slope of log change over log R, sqrt less linear",
        _HALF,
        "above",
        "1/2 (∝ √R against flat)",
        count,
    )
    def sqrt_moves_more(evidence: Evidence) -> Estimate:
        slopes, result = _slopes(evidence, steps)
        return _sized(over_seeds(slopes["sqrt"] - slopes["linear"]), result, count)

    @_of_paper(
        f"fig{figure}_linear_is_flat",
        f"Scaled by 1/R, {when} moves the output as far whatever the number of loops.",
        of_figure,
        "slope of log change over log R, linear",
        _HALF,
        "below",
        "0 (flat)",
        count,
    )
    def linear_is_flat(evidence: Evidence) -> Estimate:
        slopes, result = _slopes(evidence, steps)
        return _sized(over_seeds(slopes["linear"]), result, count)


_slope_claims(4, slice(0, 1), "one optimiser step", 1)
_slope_claims(9, slice(0, 10), "each of the first ten optimiser steps", 10)


def _by_seed(curve: Mapping[str, Any]) -> Floats:
    """The values of a curve seed by seed, [seeds, …]."""
    return np.array(curve["by_seed"], dtype=np.float64)


def _sized(estimate: Estimate, result: Mapping[str, Any], steps: int) -> Estimate:
    """With the size of the models of a result."""
    init = result.get("init")
    size = f"U = {init['layers']}, d = {init['width']}" if init else "U = 1, d = 32"
    return estimate._replace(steps=steps, size=size)


def _sweep(evidence: Evidence) -> Any:
    """The sweep; NotMeasured if nothing was learned."""
    result = evidence.result("stability", "sweep")
    few, many = str(result["loops"][0]), str(result["loops"][-1])
    for scaling, best in result["best"].items():
        for loops in (few, many):
            if best[loops] is None or best[loops]["error"] > 0.9 * result["initial"]:
                raise NotMeasured(f"{scaling}, R = {loops}: still on the plateau at every rate")
    return result


def _from_verdict(verdict: Mapping[str, Any], sign: int = 1) -> Estimate:
    """The 90 % interval of a sweep's verdict over seeds; NotMeasured, with its reason, if it is
    unknown."""
    if verdict["verdict"] == "unknown":
        raise NotMeasured(verdict["reason"])
    return over_seeds(sign * np.array(verdict["by_seed"]))


@_of_paper(
    "fig5_linear_gains",
    "At its best learning rate 1/R has less error than 1/√R with many loops.",
    "Figure 5",
    "least error with 1/√R less that with 1/R, at the most loops",
    0.0,
    "above",
    "0.025 nats at R = 8, 340M parameters",
    20_000,
)
def linear_gains(evidence: Evidence) -> Estimate:
    """The sweep's own gain."""
    result = _sweep(evidence)
    gain = _from_verdict(result["gain"][str(result["loops"][-1])])
    return _sized(gain, result, result["steps"])


@_of_paper(
    "fig5_linear_rate_stays",
    "With 1/R the best learning rate stays where it is however many loops there are.",
    "Figure 5",
    f"octaves by which the best rate moves either way {_ACROSS}, linear",
    1.0,  # two rates of the sweep's grid
    "below",
    "a narrow band",
    20_000,
)
def linear_rate_stays(evidence: Evidence) -> Estimate:
    """The size of the movement."""
    result = _sweep(evidence)
    moved = absolute(_from_verdict(result["move"]["linear"]))
    return _sized(moved, result, result["steps"])


@_of_paper(
    "fig5_sqrt_rate_falls",
    "With 1/√R the best learning rate falls with the number of loops.",
    "Figure 5",
    f"octaves by which the best rate falls {_ACROSS}, sqrt",
    0.5,  # half a step of the sweep's grid: the least that counts as a movement there
    "above",
    "",
    20_000,
)
def sqrt_rate_falls(evidence: Evidence) -> Estimate:
    """The sweep's own movement, downwards."""
    result = _sweep(evidence)
    return _sized(_from_verdict(result["move"]["sqrt"], -1), result, result["steps"])


def _trained(evidence: Evidence) -> list[Any]:
    """The finished runs with 1/R or its factored form, by loops."""
    runs = evidence.result("stability", "trained")["runs"]
    for run in runs:
        if run["unfinished"] or not run["step"]:
            raise NotMeasured(f"{run['what']}: {'; '.join(run['unfinished']) or 'untrained'}")
    found = [run for run in runs if run["scaling"] in ("linear", "factored")]
    return sorted(found, key=lambda run: run["loops"])


@_of_paper(
    "fig6_trained_increments_agree",
    "After training, too, the increments of a loop agree in direction.",
    "Figures 6 and 8",
    "mean cosine of two different increments, over trained runs",
    0.1,
    "above",
    "mostly positive, 0.3 to 0.6",
    20_000,
)
def trained_increments_agree(evidence: Evidence) -> Estimate:
    """Over the runs, which differ in their loops."""
    runs = [run for run in _trained(evidence) if run["apart"] is not None]
    estimate = over_seeds([run["apart"] for run in runs], what="run of several loops")
    return _over_runs(estimate, runs)


@_of_paper(
    "fig7_norm_does_not_depend_on_loops",
    "With 1/R trained models end with streams of one size however many loops they have.",
    "Figure 7",
    "largest over smallest norm of the stream after the last loop, over trained runs",
    1.5,  # 1/√R would give 2 from R = 2 to 8
    "below",
    "similar",
    20_000,
)
def norm_does_not_depend_on_loops(evidence: Evidence) -> Estimate:
    """Of runs that differ in their loops, with the standard errors over prompts."""
    runs = _trained(evidence)
    if len({run["loops"] for run in runs}) < 2:
        raise NotMeasured("no two trained runs that differ in their loops")
    ends = sorted(runs, key=lambda run: run["norm"]["mean"][-1])
    small, large = ends[0]["norm"], ends[-1]["norm"]
    ratio = large["mean"][-1] / small["mean"][-1]
    parts = [each["standard_error"][-1] / each["mean"][-1] for each in (small, large)]
    return _over_runs(over_seeds([ratio], [ratio * float(np.hypot(*parts))], log=True), runs)


def _over_runs(estimate: Estimate, runs: list[Any]) -> Estimate:
    loops = ", ".join(str(run["loops"]) for run in runs)
    steps = min(run["step"] for run in runs)
    return estimate._replace(seeds=1, steps=steps, size=f"R = {loops}", note="one seed")
