"""The stream of trained runs from loop to loop: its norm, and the increments that loops add to
it."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np

from looplab.conf.mistakes import RunError
from looplab.conf.schema import Config, EvaluationConfig
from looplab.evaluation.bootstrap import Floats, Interval, numbers
from looplab.evaluation.groups import labelled
from looplab.evaluation.remarks import unfinished as missing_of
from looplab.evaluation.results import kind_of
from looplab.evaluation.statistics import Estimate, NotMeasured, absolute, over_seeds
from looplab.probing.dynamics.trajectory import Movements, follow, prompts_on
from looplab.show.panel import Curve, Panel, mean_of_seeds, padded, without_interval
from looplab.training.assemble import build_model, trained_loops
from looplab.training.run_folder.run import Run
from looplab.training.validation import evaluation_prompts

from .evidence import Evidence, highest, lowest
from .near_init import by_distance, distance_panel, matrix_panel

PROMPTS = 64  # on which trained runs are followed
_Z = 1.645  # standard errors in half a 90 % interval
# Of the sum r of a loop's branches, by names of panels.
_BRANCHES = {"branch": "‖r‖ / √d, r = increment / ε", "gain": "‖r‖ / norm of the state"}


def measure(
    runs: Sequence[Run], settings: EvaluationConfig, unfinished: Sequence[Config] = ()
) -> dict[str, Any]:
    """Follow trained runs, also those that learned nothing, up to their number of loops, on 64
    prompts.

    `runs`, of each: `norm`, the mean of a token's state before the final norm over prompts, and its
    `standard_error`, from index 0, the read-in, to loop b; `cosine` [b, b] between increments, None
    if one of the two is zero at all tokens; `apart`, its mean over pairs of different ones, None if
    there are none, and `apart_at_start`, that before the first step; and from loop 1 on, of the
    increment over ε, r, the sum of a loop's branches: `branch`, ‖rₜ‖/√d, and `gain`, ‖rₜ‖/‖Yₜ‖,
    means over prompts. `energy` are the parts of the squared norm by loop, `products` the inner
    products of increments. `unfinished` says what its training lacks. `groups` have the paths of
    the `runs` of one model, by their seeds. RunError if states are not finite.
    """
    groups = []
    for label, group in labelled(runs):
        paths = [str(run.path) for run in group.runs]
        kind = kind_of(group.config.model)
        groups.append({"label": label, "kind": kind, "b": group.b, "runs": paths})
    return {"runs": list(map(_followed, runs)), "groups": groups, "prompts": PROMPTS}


def panels(found: Mapping[str, Any]) -> list[Panel]:
    """The norms by loop, the cosines of each model's increments, these by the distance between two
    loops, the parts of the squared norm with the inner products of increments, and `branch` and
    `gain`; curves are of the seeds of one model."""
    by_path = {run["run"]: run for run in found["runs"]}
    groups = found["groups"]
    loops = [group["b"] for group in groups]
    longest = 1 + max(loops)
    tells = len(set(loops)) == len(groups) > 1  # else b tells no two apart
    norms = []
    of_branches: dict[str, list[Curve]] = {part: [] for part in _BRANCHES}
    apart = []
    matrices: list[Panel] = []
    energies = []
    for group in groups:
        runs = [by_path[path] for path in group["runs"]]
        number = group["b"] if tells else None
        curve = partial(Curve.of, group["label"], group["kind"], number=number)
        norms.append(curve(_norms(runs, longest)))
        for part, curves in of_branches.items():
            values = [padded(run[part], longest - 1) for run in runs]
            curves.append(curve(mean_of_seeds(values)))
        if group["b"] > 1:
            cosines = np.array([run["cosine"] for run in runs], dtype=np.float64)
            apart.append(curve(mean_of_seeds(by_distance(cosines, longest - 1))))
            title = f"{group['label']}, step {runs[0]['step']}"
            name = f"trained-cosines-{len(matrices) + 1}"
            matrices.append(matrix_panel(name, title, _mean(cosines).tolist()))
            energies += _energy_panels(len(matrices), title, runs)
    axes = ("loop (0: the read-in)", "norm of a token's state before the norm")
    title = f"trained runs, {found['prompts']} prompts"
    drawn = [Panel("trained-norms", title, *axes, range(longest), norms, log="y")]
    drawn += matrices
    if apart:
        drawn.append(distance_panel("trained-cosines", title, apart))
    drawn += energies
    for part, curves in of_branches.items():
        axes = ("loop", _BRANCHES[part])
        drawn.append(Panel(f"trained-{part}", title, *axes, range(1, longest), curves))
    return drawn


def _norms(runs: Sequence[Mapping[str, Any]], longest: int) -> Interval:
    """The norm by loop of the seeds of one model; of one seed the interval is over prompts."""
    interval = mean_of_seeds([padded(run["norm"]["mean"], longest) for run in runs])
    if len(runs) > 1:
        return interval
    half = _Z * numbers(padded(runs[0]["norm"]["standard_error"], longest))
    return Interval(interval.mean, interval.mean - half, interval.mean + half)


def _energy_panels(number: int, title: str, runs: Sequence[Mapping[str, Any]]) -> list[Panel]:
    """The parts of the energy by loop, and the inner products of increments over the largest: the
    means over seeds."""
    parts = {}
    for name in runs[0]["energy"]:
        parts[name] = np.mean([run["energy"][name] for run in runs], axis=0)
    parts = {"whole": np.sum(list(parts.values()), axis=0)} | parts
    curves = []
    for name, values in parts.items():
        file = name.replace(" ", "_")
        curves.append(Curve.of(name, "loops", without_interval(values), name=file))
    axes = ("loop (0: the read-in)", "squared norm of a token's state, and its parts")
    loops = range(len(parts["whole"]))
    energy = Panel(f"trained-energy-{number}", title, *axes, loops, curves)
    products = np.mean([run["products"] for run in runs], axis=0)
    over_largest = products / np.abs(products).max()
    named = f"{title}: inner products over the largest"
    return [energy, matrix_panel(f"trained-products-{number}", named, over_largest.tolist())]


def _followed(run: Run) -> dict[str, Any]:
    config = run.config
    model = deepcopy(run.model).requires_grad_(False).double()
    b = trained_loops(config)
    prompts = evaluation_prompts(run.task, PROMPTS, config.task.points, 0)
    movements = Movements(window=b)
    last = movements.add(follow(model, prompts_on(model, prompts), b))
    if not bool(last.isfinite().all()):
        raise RunError(f"{run.path}: its states are not finite by loop {b}")
    arrays = movements.arrays()
    norms = arrays["raw"]  # [prompts, loops + 1]
    standard_error = norms.std(0, ddof=1) / np.sqrt(len(norms))
    cosine = _mean(arrays["cosines"])
    new = build_model(config, run.task).requires_grad_(False).double()
    at_start = Movements(window=b)
    at_start.add(follow(new, prompts_on(new, prompts), b))
    products = arrays["products"].mean(0)
    epsilon = model.residual_scale()
    branch = arrays["absolute"].mean(0) / (epsilon * config.model.n_embd**0.5)
    gain = arrays["relative"].mean(0) / epsilon
    return {
        "run": str(run.path),
        "what": f"{config.model.connectivity or config.model.family}, b = {b}",
        "seed": config.seed,
        "step": run.step,
        "unfinished": missing_of(config, run.task, run.step),
        "scaling": config.model.residual_scaling,
        "layers": config.model.n_layer,
        "loops": b,
        "norm": {"mean": norms.mean(0).tolist(), "standard_error": standard_error.tolist()},
        "cosine": cosine.tolist(),
        "products": products.tolist(),
        "energy": _energy(products, arrays),
        "branch": branch.tolist(),
        "gain": gain.tolist(),
        "apart": _apart(cosine),
        "apart_at_start": _apart(_mean(at_start.arrays()["cosines"])),
    }


def _apart(cosine: Any) -> float | None:
    """The mean of the cosines [b, b] of different increments, None if there are none."""
    mean = cosine[~np.eye(len(cosine), dtype=bool)].mean()
    return None if mean is np.ma.masked else float(mean)


def _energy(products: Floats, arrays: Mapping[str, Floats]) -> dict[str, list[float]]:
    """The parts of ‖Yₜ‖², the mean over prompts and tokens, by loop from 0 on: ‖Y₀‖², twice the
    inner products of Y₀ with the increments until then, and those of the increments with each
    other (arXiv 2606.18524, the energy's decomposition)."""
    start = float(arrays["start"].mean())
    with_start = arrays["with_start"].mean(0)
    loops = range(len(products) + 1)
    return {
        "start": [start] * len(loops),
        "start with increments": [2 * float(with_start[:t].sum()) for t in loops],
        "increments": [float(products[:t, :t].sum()) for t in loops],
    }


def _mean(cosines: Floats) -> Any:
    """The mean of cosines [P, b, b] over the prompts that have one, masked if there is none."""
    return np.ma.masked_invalid(cosines).mean(0)


def increments_agree(evidence: Evidence) -> Estimate:
    """The mean cosine of two different increments, over trained runs."""
    runs = [run for run in _trained(evidence) if run["apart"] is not None]
    return _over_runs(runs, [run["apart"] for run in runs])


def agreement_over_start(evidence: Evidence) -> Estimate:
    """The mean cosine of two different increments over that of the same model before its first
    step, over trained runs."""
    runs = [run for run in _trained(evidence) if run["apart"] is not None]
    if not all(run.get("apart_at_start") for run in runs):
        raise NotMeasured("the cosines before the first step were not measured")
    return _over_runs(runs, [run["apart"] / run["apart_at_start"] for run in runs])


def last_increment_less_others(evidence: Evidence) -> Estimate:
    """The mean cosine of pairs with the last loop less that of the others, over trained runs."""
    runs = [run for run in _trained(evidence) if run["loops"] > 2]
    differences = []
    for run in runs:
        cosine = np.array(run["cosine"], dtype=np.float64)
        different = ~np.eye(len(cosine) - 1, dtype=bool)
        others = cosine[:-1, :-1][different]
        differences.append(cosine[-1, :-1].mean() - others.mean())
    return _over_runs(runs, differences)


def share_of_positive_pairs(evidence: Evidence) -> Estimate:
    """The share of positive cosines of two different increments, of the number of layers at which
    it is least."""
    shares = []
    for runs in _by_layers(evidence, least=3).values():
        pairs = [_different(np.array(run["cosine"], np.float64)) for run in runs]
        positive = [float((cosines > 0).mean()) for cosines in pairs]
        shares.append(_over_runs(runs, positive))
    if not shares:
        raise NotMeasured("no trained run of three loops")
    return lowest(shares)


def early_pairs_from(evidence: Evidence, cosine: float) -> Estimate:
    """The distance of the mean cosine of two different increments before the last loop's from a
    cosine, of the number of layers at which it may be largest."""
    distances = []
    for runs in _by_layers(evidence, least=3).values():
        early = [_different(np.array(run["cosine"], np.float64)[:-1, :-1]) for run in runs]
        estimate = _over_runs(runs, [float(cosines.mean()) - cosine for cosines in early])
        distances.append(absolute(estimate))
    if not distances:
        raise NotMeasured("no trained run of three loops")
    return highest(distances)


def _different(cosines: Floats) -> Floats:
    """The cosines [loops, loops] of pairs of different loops."""
    return np.asarray(cosines[~np.eye(len(cosines), dtype=bool)])


def branch_ratio(evidence: Evidence) -> Estimate:
    """The largest over the smallest branch by loop, over trained runs."""
    runs = [run for run in _trained(evidence) if run["loops"] > 1]
    ratios = [max(run["branch"]) / min(run["branch"]) for run in runs]
    return _over_runs(runs, ratios, log=True)


def trained_norm_ratio(evidence: Evidence) -> Estimate:
    """The largest norm of the stream after the last loop over the smallest, by loops, of the
    number of layers at which it is largest."""
    return highest(_of_layers(evidence, _norm_ratio, least=1))


def last_rise_by_loops(evidence: Evidence) -> Estimate:
    """The rise of the norm over the last loop, of the fewest loops above one over the most, of the
    number of layers at which it is least."""
    return lowest(_of_layers(evidence, _rise_ratio, least=2))


def _of_layers(
    evidence: Evidence, ratio_of: Callable[[Sequence[Any]], tuple[float, float]], least: int
) -> list[Estimate]:
    """For each number of layers the mean over seeds of a ratio of runs that differ in their loops
    alone, of at least so many; `ratio_of` gives it with its standard error over prompts."""
    estimates = []
    for runs in _by_layers(evidence, least).values():
        by_seed = [own for own in _by_seed(runs).values() if own[0]["loops"] < own[-1]["loops"]]
        if by_seed:
            ratios, errors = zip(*map(ratio_of, by_seed), strict=True)
            estimates.append(_sized(over_seeds(ratios, errors, log=True), runs))
    if not estimates:
        raise NotMeasured("no two trained runs that differ in their loops alone")
    return estimates


def _rise_ratio(runs: Sequence[Any]) -> tuple[float, float]:
    """The last rise of the run of fewest loops over that of the most, as if all norms' errors were
    independent."""
    rises = []
    relative = []
    for run in (runs[0], runs[-1]):
        before, after = run["norm"]["mean"][-2:]
        errors = run["norm"]["standard_error"][-2:]
        rises.append(after - before)
        relative.append(float(np.hypot(*errors)) / abs(after - before))
    ratio = rises[0] / rises[1]
    return ratio, ratio * float(np.hypot(*relative))


def _norm_ratio(runs: Sequence[Any]) -> tuple[float, float]:
    """The largest over the smallest last norm of runs, as if their errors were independent."""
    by_norm = sorted(runs, key=lambda run: run["norm"]["mean"][-1])
    small = by_norm[0]["norm"]
    large = by_norm[-1]["norm"]
    ratio = large["mean"][-1] / small["mean"][-1]
    relative = [norm["standard_error"][-1] / norm["mean"][-1] for norm in (small, large)]
    return ratio, ratio * float(np.hypot(*relative))


def _trained(evidence: Evidence) -> list[Any]:
    """The finished runs with 1/R or its factored form, by loops."""
    runs = evidence.result("trained_increments")["runs"]
    for run in runs:
        if run["unfinished"] or not run["step"]:
            raise NotMeasured(f"{run['what']}: {'; '.join(run['unfinished']) or 'untrained'}")
    scaled = [run for run in runs if run["scaling"] in ("linear", "factored")]
    return sorted(scaled, key=lambda run: run["loops"])


def _by_layers(evidence: Evidence, least: int) -> dict[int, list[Any]]:
    """The trained runs of at least so many loops, by their number of layers."""
    by_layers: dict[int, list[Any]] = {}
    for run in _trained(evidence):
        layers = run.get("layers", 0)  # 0: of results without it
        if run["loops"] >= least:
            by_layers.setdefault(layers, []).append(run)
    return by_layers


def _by_seed(runs: Sequence[Any]) -> dict[int, list[Any]]:
    """The runs of each seed, by loops as they come."""
    by_seed: dict[int, list[Any]] = {}
    for run in runs:
        by_seed.setdefault(run.get("seed", 0), []).append(run)  # 0: of results without it
    return by_seed


def _over_runs(runs: Sequence[Any], values: Sequence[float], log: bool = False) -> Estimate:
    """The mean of a value of each of these runs: over seeds that of each one's runs. The runs of
    one seed alone stand for seeds."""
    by_seed: dict[int, list[float]] = {}
    for run, value in zip(runs, values, strict=True):
        by_seed.setdefault(run.get("seed", 0), []).append(value)
    if len(by_seed) == 1:
        estimate = over_seeds(values, what="run of several loops", log=log)
        return _sized(estimate._replace(seeds=1, note="one seed"), runs)
    means = [np.exp(np.log(own).mean()) if log else np.mean(own) for own in by_seed.values()]
    return _sized(over_seeds(means, log=log), runs)


def _sized(estimate: Estimate, runs: Sequence[Any]) -> Estimate:
    """The estimate with the loops and the fewest steps of these runs."""
    loops = ", ".join(map(str, sorted({run["loops"] for run in runs})))
    return estimate._replace(steps=min(run["step"] for run in runs), size=f"R = {loops}")
