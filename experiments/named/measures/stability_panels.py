"""The pictures of the figures of `experiments.stability` as numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from looplab.evaluation.bootstrap import Interval, numbers
from looplab.evaluation.panel import Curve, Panel, mean_of_seeds, padded, without_interval
from looplab.experiments.stability.near_init import PLACES
from looplab.experiments.stability.tables import LABELS

_HIGHEST = 1e3  # as in the figure of the toy: exploding norms leave it
_Z = 1.645  # standard errors in half a 90 % interval
_ERROR = "error / error of predicting zero"
_METRICS = {
    "loss": "loss, smoothed",
    "last_residual": "residual norm, last loop",
    "first_residual": "residual norm, first loop",
    "mlp_grad_norm": "gradient norm of the first MLP, before clipping",
    "mlp_grad_norm_clipped": "gradient norm of the first MLP, clipped",
}
_KINDS = {"looped": "looped", "deep": "not shared", "non_shared": "not shared"}


def toy(result: Mapping[str, Any]) -> list[Panel]:
    """Norms of looped and deep stacks by loops, and the change by an update."""
    loops, title = result["loops"], f"h ← h + ε W relu(h), d = {result['width']}"
    norms = [
        Curve.of(f"{_KINDS[kind]}, {label}", scaling, mean_of_seeds(_shown(of["by_seed"])))
        for kind in ("looped", "deep")
        for scaling, label in LABELS.items()
        for of in [result["norm"][f"{kind} {scaling}"]]
    ]
    changes = [
        Curve.of(
            label, scaling, mean_of_seeds(_shown(result["change"][f"looped {scaling}"]["by_seed"]))
        )
        for scaling, label in LABELS.items()
    ]
    change = "change of the output by one update / η"
    return [
        Panel("toy-norm", title, "loops R", "‖h_R‖ / √d", loops, norms, log="xy"),
        Panel("toy-change", f"{title}, looped", "loops R", change, loops, changes, log="xy"),
    ]


def norms(result: Mapping[str, Any]) -> list[Panel]:
    """Norms by step, a panel for each sharing and scaling, a curve for each number of loops."""
    axes = ("optimiser step", "root mean square of the stream")
    return [
        Panel(
            f"norms-{sharing.replace('_', '-')}-{scaling}",
            f"{_KINDS[sharing]}, {LABELS[scaling]}; {result['what']}",
            *axes,
            range(result["steps"] + 1),
            _by_loops(result["loops"], np.array(of["by_seed"])),
            log="y",
        )
        for sharing, by_scaling in result["norm"].items()
        for scaling, of in by_scaling.items()
    ]


def cosines(result: Mapping[str, Any]) -> list[Panel]:
    """The matrices of cosines in two panels: by the distance between two loops, and each loop's
    mean with all others."""
    matrices = {sharing: np.array(of["by_seed"]) for sharing, of in result["cosine"].items()}
    return _cosine_panels(
        "cosines",
        f"increments of {len(result['loops'])} loops, {result['what']}",
        [
            (_KINDS[sharing], "looped" if sharing == "looped" else "standard", values)
            for sharing, values in matrices.items()
        ],
    )


def _cosine_panels(
    name: str, title: str, curves: Sequence[tuple[str, str, Any]], numbers: Sequence[float] = ()
) -> list[Panel]:
    """Two panels of cosines between increments, given as labels, kinds and matrices [seeds, loops,
    loops] with nan where there is none; of different sizes, they end at different loops."""
    longest = max(matrices.shape[1] for _, _, matrices in curves)
    found = []
    for suffix, axis, reduce in (
        ("by-distance", "distance between two loops", _by_distance),
        ("by-loop", "increment of loop, with all others", _by_loop),
    ):
        first = 1 if suffix == "by-distance" else 0
        drawn = []
        for index, (label, kind, matrices) in enumerate(curves):
            values = np.full((len(matrices), longest - first), np.nan)
            values[:, : matrices.shape[1] - first] = reduce(matrices)
            number = numbers[index] if numbers else None
            drawn.append(Curve.of(label, kind, mean_of_seeds(values), number=number))
        x = range(1, longest + 1 - first)
        found.append(Panel(f"{name}-{suffix}", title, axis, "cosine, mean", x, drawn))
    return found


def changes(result: Mapping[str, Any]) -> list[Panel]:
    """Changes by loops at the first step; by loops at all steps, a panel for each scaling; slopes
    by step and by the embedding's standard deviation; each before the final norm and after it."""
    found, loops, steps = list[Panel](), result["loops"], range(1, result["steps"] + 1)
    moved = "root mean square of the output's change"
    for place, where in PLACES.items():
        by_scaling, title = result["change"][place], f"{where}, {result['what']}"
        values = {scaling: np.array(of["by_seed"]) for scaling, of in by_scaling.items()}
        first = [Curve.of(LABELS[s], s, mean_of_seeds(v[:, :, 0])) for s, v in values.items()]
        found.append(
            Panel(f"changes-step-1-{place}", f"step 1, {title}", "loops R", moved, loops, first,
                  log="xy")
        )  # fmt: skip
        found += [
            Panel(
                f"changes-by-step-{place}-{scaling}",
                f"{LABELS[scaling]}, {title}",
                "optimiser step",
                moved,
                steps,
                _by_loops(loops, value),
                log="y",
            )
            for scaling, value in values.items()
        ]
    for part, axis, x, log in (
        ("slope", "optimiser step", steps, ""),
        ("by_embedding", "embedding std", result["embedding_stds"], "x"),
    ):
        for place, where in PLACES.items():
            curves = [
                Curve.of(LABELS[scaling], scaling, mean_of_seeds(of["by_seed"]))
                for scaling, of in result[part][place].items()
            ]
            name = f"changes-{part.replace('_', '-')}-{place}"
            title = f"{where}, {result['what']}"
            found.append(
                Panel(name, title, axis, "slope of log change over log R", x, curves, log=log)
            )
    return found


def sweep(result: Mapping[str, Any]) -> list[Panel]:
    """Error by rate, a panel for each scaling, a curve for each number of loops."""
    levels = {"predicting zero": result["zero"], "least possible": result["bayes"]}
    found = []
    for scaling, cells in result["scalings"].items():
        curves = [
            Curve.of(
                f"R = {R}",
                "loops",
                mean_of_seeds(list(zip(*cell["errors"], strict=True))),
                number=int(R),
            )
            for R, cell in cells.items()
        ]
        errors = [e for cell in cells.values() for row in cell["errors"] for e in row]
        title = (
            f"{LABELS[scaling]}; {result['what']}; {errors.count(None)} of {len(errors)} runs "
            "collapsed"
        )
        name, axes = f"{result['figure']}-{scaling}", ("learning rate", _ERROR)
        found.append(Panel(name, title, *axes, result["rates"], curves, log="xy", levels=levels))
    return found


def variants(result: Mapping[str, Any]) -> list[Panel]:
    """Error by loops, a curve for each variant."""
    loops, plain = result["loops"], [error for error in result["plain"] if error is not None]
    curves = []
    for variant, cells in result["variants"].items():
        errors = [cells[str(K)]["error"] for K in loops]
        curves.append(Curve.of(variant, variant, mean_of_seeds(list(zip(*errors, strict=True)))))
    levels = {"one loop": float(np.mean(plain))} if plain else {}
    title = f"linear regression in context, two layers, {result['steps']:,} steps"
    return [Panel("variants", title, "loops K", _ERROR, loops, curves, log="x", levels=levels)]


def fully_looped(result: Mapping[str, Any]) -> list[Panel]:
    """A panel for each variant and metric, a curve for each number of loops; without intervals."""
    return [
        Panel(
            f"fully-looped-{variant}-{metric.replace('_', '-')}",
            f"{variant}, {len(result['seeds'])} seeds",
            "step",
            label,
            result["steps"],
            [
                Curve.of(
                    f"K = {K}", "loops", without_interval(numbers(curves[metric])), number=int(K)
                )
                for K, curves in by_loops.items()
            ],
            log="y",
        )
        for variant, by_loops in result["curves"].items()
        for metric, label in _METRICS.items()
    ]


def trained(result: Mapping[str, Any]) -> list[Panel]:
    """Norms by loop, and cosines between increments; runs of one model are seeds of one curve."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for run in result["runs"]:
        groups.setdefault(run["what"], []).append(run)
    longest = 1 + max(run["loops"] for run in result["runs"])
    curves = []
    for what, runs in groups.items():
        means = [padded(run["norm"]["mean"], longest) for run in runs]
        interval = (
            _over_prompts(runs[0]["norm"], longest) if len(runs) == 1 else mean_of_seeds(means)
        )
        curves.append(Curve.of(what, "loops", interval, number=runs[0]["loops"]))
    axes = ("loop (0: the read-in)", "norm of a token's state before the norm")
    title = f"trained runs, {result['prompts']} prompts"
    matrices = [
        (what, "loops", np.array([run["cosine"] for run in runs], dtype=np.float64))
        for what, runs in groups.items()
        if runs[0]["loops"] > 1
    ]
    loops = [float(runs[0]["loops"]) for runs in groups.values() if runs[0]["loops"] > 1]
    return [
        Panel("trained-norms", title, *axes, range(longest), curves, log="y"),
        *(_cosine_panels("trained-cosines", title, matrices, loops) if matrices else []),
    ]


def _over_prompts(norm: Mapping[str, Any], length: int) -> Interval:
    mean = numbers(padded(norm["mean"], length))
    half = _Z * numbers(padded(norm["standard_error"], length))
    return Interval(mean, mean - half, mean + half)


def _by_loops(loops: Sequence[int], values: Any) -> list[Curve]:
    """A curve for each number of loops, of values [seeds, loops, x]."""
    return [
        Curve.of(f"R = {r}", "loops", mean_of_seeds(values[:, index]), number=r)
        for index, r in enumerate(loops)
    ]


def _shown(by_seed: Sequence[Sequence[float]]) -> Any:
    """The values [seeds, loops], nan after the first number of loops at which their mean is above
    1,000."""
    values = np.array(by_seed)
    beyond = np.cumsum(values.mean(0) > _HIGHEST)
    return np.where(beyond - (values.mean(0) > _HIGHEST) > 0, np.nan, values)


def _by_distance(matrices: Any) -> Any:
    """The mean of each diagonal above the main one, [seeds, loops - 1]."""
    distances = range(1, matrices.shape[1])
    diagonals = (np.diagonal(matrices, distance, 1, 2) for distance in distances)
    return np.array([_mean(diagonal) for diagonal in diagonals]).reshape(-1, len(matrices)).T


def _by_loop(matrices: Any) -> Any:
    """Each row's mean without its own entry, [seeds, loops]."""
    others = np.where(np.eye(matrices.shape[1], dtype=bool), np.nan, matrices)
    return np.array([_mean(row) for row in np.moveaxis(others, 1, 0)]).T


def _mean(values: Any) -> Any:
    """The mean over the last axis of the values that are not nan, nan without any."""
    valid = np.isfinite(values)
    counts = valid.sum(-1)
    sums = np.where(valid, values, 0).sum(-1)
    return np.where(counts, sums / np.maximum(counts, 1), np.nan)


PANELS: Mapping[str, Callable[[Mapping[str, Any]], list[Panel]]] = {
    "toy": toy,
    "norms": norms,
    "cosines": cosines,
    "changes": changes,
    "sweep": sweep,
    "contrast": sweep,
    "variants": variants,
    "fully_looped": fully_looped,
    "trained": trained,
}
