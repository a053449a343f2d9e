"""Measure the dynamics of a run, write them into its folder (dynamics.json, probing/dynamics/), and
show them as panels and as text for the terminal.

result = dynamics(DynamicsSettings("runs/NAME", loops=200))
print(report(result))
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator

from looplab.conf.schema import TableFormat
from looplab.evaluation.bootstrap import Band, bootstrap, plain
from looplab.evaluation.load import load_run, writable
from looplab.evaluation.results import unit
from looplab.models import Model
from looplab.show.panel import Curve, Panel
from looplab.show.tables import Part, Table, document
from looplab.training.assemble import trained_loops
from looplab.training.device import place_exactly, torch_defaults
from looplab.training.progress import Progress
from looplab.training.run_folder.run import Run, RunError
from looplab.training.validation import evaluation_prompts

from ..results import Result, kept_and_shown, request_of
from ..settings import DynamicsSettings
from .trajectory import (
    MOST,
    Estimate,
    Movements,
    follow,
    prompts_on,
    spectral_norm,
    spectral_radius,
)

_WINDOW = 3  # times b: the loops whose increments are all compared
_BATCH = 16  # prompts at once, and fewer if their stored vectors take more than
_BATCH_BYTES = 2**28
_RESAMPLES = 1000  # of the bootstrap
_CONVERGED = 1e-6  # of the state's norm: a smaller fixed-point residual


@torch_defaults()
def dynamics(settings: DynamicsSettings) -> Result:
    """The dynamics of the states of a run's newest checkpoint, loop by loop, as plain values: what
    `summary` returns and, where all loops are the same, `contraction`; kept as by `kept_and_shown`.

    Raises ConfigError for settings that do not suit this run. Raises RunError without an undamaged
    checkpoint, for states that are not finite, and where another process is measuring.
    """
    settings.check()
    placement = place_exactly(settings.device)
    run = load_run(settings.run)
    far = run.model.loop.most_loops or max(100, 5 * trained_loops(run.config))
    settings = replace(settings, loops=(loops := settings.loops or far))

    # The request holds the weights as they are stored: it is made before they become float64 below.
    def compute() -> tuple[Result, None]:
        # In float64: far beyond b increments are smaller than float32's rounding.
        model = placement.prepare(run.model.requires_grad_(False).double())
        return _measured(run, model, settings, loops), None

    request = request_of(run, settings, dynamics)
    with writable(run) as own_run:
        return kept_and_shown(own_run, "dynamics", request, compute, panels, settings)


def _measured(run: Run, model: Model, settings: DynamicsSettings, loops: int) -> Result:
    seed = settings.seed
    points = run.config.task.points
    prompts = evaluation_prompts(run.task, settings.prompts, points, seed)
    window = min(loops, _WINDOW * trained_loops(run.config))
    # The increments of each prompt, or the vectors of the power iteration, are stored.
    # Bytes of a prompt: 8 for each float64, two tokens for each pair.
    stored = max(window, MOST) * 8 * 2 * points * run.config.model.n_embd
    size = max(1, min(_BATCH, _BATCH_BYTES // stored))
    movements = Movements(window)
    norms: list[Estimate] = []
    radii: list[Estimate] = []
    generator = Generator().manual_seed(seed)
    with Progress(len(prompts), "dynamics", "prompt") as progress:
        for first in range(0, len(prompts), size):
            batch = prompts_on(model, prompts[first : first + size])
            trajectory = follow(model, batch, loops)
            last = movements.add(trajectory)
            if not bool(last.isfinite().all()):
                raise RunError(f"{run.path}: its states are not finite by loop {loops}")
            if trajectory.one_loop is not None:
                norms.append(spectral_norm(trajectory.one_loop, last, generator))
                radii.append(spectral_radius(trajectory.one_loop, last, generator))
            progress.update(len(batch))
    result: Result = {"loops": loops, "prompts": settings.prompts} | summary(movements, seed)
    if norms:
        result["contraction"] = {"loop": loops} | contraction(norms, radii, seed)
    return result


def summary(movements: Movements, seed: int) -> Result:
    """All but the Jacobian's factors; the seed is that of the resamples. Each part has its `loop`s
    (of a standard model, its layers; 0 is the read-in) and bands, means over prompts.

    `norm` is a token's before (`raw`) and after (`stream`) the final norm; `change` is ‖Yₜ − Yₜ₋₁‖,
    `absolute` and `relative` to ‖Yₜ‖; `cosines` are those between all increments, row by row, and
    their mean over `pairs` of different ones, None if no pair has a cosine. Where all loops are the
    same, `residual` is ‖M(Yₜ) − Yₜ‖ with its spread `over_prompts` and the share `at_rest`.
    """
    arrays = movements.arrays()
    bands = {name: _interval(values, seed) for name, values in arrays.items() if values.ndim == 2}
    indices = list(range(arrays["raw"].shape[1]))
    loops = indices[1:]
    result: Result = {}
    result["norm"] = {"loop": indices, "raw": bands["raw"], "stream": bands["stream"]}
    changes = {"absolute": bands["absolute"], "relative": bands["relative"]}
    result["change"] = {"loop": loops} | changes
    near = loops[: arrays["cosines"].shape[1]]
    result["cosines"] = {"loop": near} | _cosines(arrays["cosines"], seed)
    if "residual" in arrays:
        relative = arrays["relative_residual"]
        # Some prompts may converge and others not.
        # Quantiles over prompts, by loop: a spread, and no interval of a mean.
        low, median, high = map(plain, np.quantile(relative, (0.05, 0.5, 0.95), axis=0))
        at_rest = _interval(relative[:, -1:] < _CONVERGED, seed)
        result["residual"] = {
            "loop": loops,
            "absolute": bands["residual"],
            "relative": bands["relative_residual"],
            "over_prompts": {"median": median, "percentile_5": low, "percentile_95": high},
            "at_rest": {"below": _CONVERGED} | dict(at_rest),
        }
    return result


def contraction(norms: list[Estimate], radii: list[Estimate], seed: int) -> Result:
    """`spectral_norm` and `spectral_radius` of all batches, with the largest change of each at the
    end of its iteration. `below_one` is the share of prompts whose spectral radius is."""
    result: Result = {}
    for name, batches in (("spectral_norm", norms), ("spectral_radius", radii)):
        values = torch.cat([batch.values for batch in batches]).cpu().numpy()
        factor: Result = dict(_interval(values[:, None], seed))
        factor["by_prompt"] = values.tolist()
        factor["remaining_change"] = max(float(batch.change.max()) for batch in batches)
        factor["iterations"] = max(batch.iterations for batch in batches)
        result[name] = factor
    radius = np.array(result["spectral_radius"]["by_prompt"])
    result["below_one"] = _interval(radius[:, None] < 1, seed)
    return result


def _cosines(values: NDArray[Any], seed: int) -> Result:
    """The matrix with its intervals, row by row, and the mean over different increments."""
    result: Result = {"mean": [], "low": [], "high": [], "pairs": None}
    for index in range(values.shape[1]):
        for key, row in _interval(values[:, index], seed).items():
            result[key].append(row)
    off_diagonal = values[:, ~np.eye(values.shape[1], dtype=bool)]
    # Pairs of which one increment is zero (late loops, once converged) have no cosine.
    pairs = off_diagonal[:, ~np.isnan(off_diagonal).any(0)]
    if pairs.size:
        result["pairs"] = _interval(pairs.mean(1, keepdims=True), seed)
    return result


def _interval(values: NDArray[Any], seed: int) -> Band:
    """Means of values [P, ...] over prompts, with their intervals."""
    return bootstrap(values.astype(np.float64), _RESAMPLES, seed).to_json()


def panels(result: Result) -> list[Panel]:
    """Norm, change, fixed-point residual and cosines by loop or layer."""
    axis = unit(result["family"])
    style = result["style"]
    b = None if result["family"] == "standard" else result["b"]

    def panel(name: str, title: str, y_label: str, labels: dict[str, str]) -> Panel:
        curves = []
        for key, label in labels.items():
            curves.append(Curve.of(label, style, result[name][key], name=key, b=b))
        return Panel(name, title, axis, y_label, result[name]["loop"], curves, log="y")

    norms = {"raw": "norm before the LayerNorm", "stream": "norm of the state"}
    if result["family"] == "standard":
        # A standard model's norm is at the read-out, so its two states are the same.
        del norms["raw"]
    changes = {"absolute": "change", "relative": "change / norm"}
    shown = [
        panel("norm", f"Norm by {axis}", "norm of a token's state", norms),
        panel("change", f"Change over a {axis}", "‖Yₜ − Yₜ₋₁‖, and the same over ‖Yₜ‖", changes),
    ]
    if "residual" in result:
        gaps = {"absolute": "fixed-point residual", "relative": "residual / norm"}
        title = "Fixed-point residual (median prompt: 5 to 95 % of prompts)"
        # If some prompts converge and others do not, the others dominate the mean.
        quantiles = result["residual"]["over_prompts"]
        residual = panel("residual", title, "‖M(Yₜ) − Yₜ‖, and the same over ‖Yₜ‖", gaps)
        median = Curve(
            label="residual / norm, median prompt",
            kind="median",
            name="median",
            b=b,
            mean=quantiles["median"],
            low=quantiles["percentile_5"],
            high=quantiles["percentile_95"],
        )
        shown.append(replace(residual, curves=[*residual.curves, median]))
    cosines = result["cosines"]
    title = "Cosines of increments, mean over tokens and prompts"
    if any(None in row for row in cosines["mean"]):
        title += ", grey where converged"
    increment = f"increment of {axis}"
    of_b = Curve(label="", kind=style, mean=[], b=b)  # without values: it marks b
    shown.append(
        Panel(
            "increment_cosines",
            title,
            increment,
            increment,
            cosines["loop"],
            [of_b],
            matrix=cosines["mean"],
        )
    )
    return shown


def report(result: Result, form: TableFormat = "text") -> str:
    """A table of the curves at a few loops; and the Jacobian at the last one."""
    axis = unit(result["family"])
    b = result["b"]
    last = result["loops"]
    # The read-in, the first loops, around b and beyond it.
    loops = {0, 1, 2, b // 2, b, 2 * b, 3 * b, last} if last >= 10 else range(last + 1)
    shown = sorted(loop for loop in loops if loop <= last)
    rows = []
    for panel in panels(result):
        for curve in panel.curves:
            if not curve.mean:
                continue
            label = curve.label or panel.y_label
            if panel.x[-1] != last:
                label += f", to {axis} {panel.x[-1]}"
            texts = ["–" if value is None else f"{value:.3g}" for value in curve.mean]
            by_loop = dict(zip(panel.x, texts, strict=True))
            rows.append([label] + [by_loop.get(loop, "") for loop in shown])
    parts: list[Part] = list(result.get("remarks", []))
    parts.append(Table([axis, *map(str, shown)], rows))
    parts.append("")
    parts += _sentences(result, axis)
    return document(parts, form)


def _sentences(result: Result, axis: str) -> Iterator[str]:
    """The single values: mean cosine, share of converged prompts, the Jacobian's factors."""
    pairs = result["cosines"]["pairs"]
    last = result["cosines"]["loop"][-1]
    if pairs:
        yield f"cosine of two different increments up to {axis} {last}, mean: {_span(pairs)}"
    if "residual" in result:
        converged = result["residual"]["at_rest"]
        yield (
            f"share of prompts converged by loop {result['loops']} (residual / norm below "
            f"{converged['below']:g}): {_span(converged)}"
        )
    if "contraction" not in result:
        return
    contraction = result["contraction"]
    yield f"the Jacobian of one loop at loop {contraction['loop']}:"
    for name, meaning in (
        ("spectral_norm", "spectral norm, the most that one loop stretches a small difference"),
        ("spectral_radius", "spectral radius, what each loop leaves of one in the long run"),
    ):
        factor = contraction[name]
        yield f"  {meaning}: {_span(factor)}"
        yield (
            f"    {factor['iterations']} iterations, of which the last eight changed it by at most "
            f"{factor['remaining_change']:.0e} of itself"
        )
    yield f"  share of prompts with a spectral radius below 1: {_span(contraction['below_one'])}"


def _span(curve: Band) -> str:
    return f"{curve['mean'][0]:.3g} (90 %: {curve['low'][0]:.3g} to {curve['high'][0]:.3g})"
