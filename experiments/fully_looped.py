"""'Simply Stabilizing the Loop via Fully Looped Transformer' (arXiv 2605.18797): its measurements,
on pairs of numbers and on texts.

Measured are the error of its loops by their number, which runs stay on the plateau and which
collapse, and norms and gradients in training.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.special import betaincinv

from looplab.conf.mistakes import RunError
from looplab.conf.schema import Config, EvaluationConfig
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.evaluate_run import evaluated, logged
from looplab.evaluation.statistics import (
    Estimate,
    NotMeasured,
    hierarchical_bootstrap,
    over_seeds,
)
from looplab.show.panel import Curve, Panel, mean_of_seeds, without_interval
from looplab.training.assemble import build_model, build_task, trained_loops
from looplab.training.objective import loss
from looplab.training.run_folder.metrics import smoothed
from looplab.training.run_folder.run import Run
from looplab.training.validation import evaluation_prompts

from .evidence import (
    Evidence,
    Trainings,
    after,
    at_b,
    at_loop,
    bits,
    groups,
    highest,
    loop_errors,
    lowest,
    over_examples,
    ratio,
    within,
)

ERROR = "error / error of predicting zero"
LEFT = 0.7  # of the initial error: a smoothed loss below it has left the plateau
_DECAY = 0.98  # of the smoothed loss: its noise is that of the mean of 99 losses
_MARGIN = 0.5  # the most that a loss may end above its best: nats, or errors over that of zero
_RATIO = 1.5  # the most that an error may be over that of the same model of one loop
_LAST = 200  # steps whose mean counts as the end
_SETTLED = 50  # losses that a smoothed one needs to be above their noise
_END = 0.1  # of the steps: the mean of a norm there is that at the end
_EVERY = 10  # steps between the points of a curve; the last step is always one
_METRICS = {  # of metrics.jsonl, and what they are
    "loss": "loss, smoothed",
    "last_residual": "residual norm, last loop",
    "first_residual": "residual norm, first loop",
    "mlp_grad_norm_clipped": "gradient norm of the first MLP, clipped",
    "mlp_grad_norm": "gradient norm of the first MLP, before clipping",
    "attention_grad_norm": "gradient norm of the first attention, before clipping",
    "head_grad_norm": "gradient norm of the head, before clipping",
}
_NORMS = tuple(name for name in _METRICS if name != "loss")
_GRADIENTS = ("mlp_grad_norm", "attention_grad_norm", "head_grad_norm")
_SWINGS = {name: f"{name.removesuffix('_grad_norm')}_gradient_swing" for name in _GRADIENTS}
_EARLY = (0.2, 0.3)  # of the steps: between them is about a fourth of the training
_IN_TRAINING = ("collapse", "swing", "rise", *_SWINGS.values())
_OF_RUN = ("error", "initial", "left", *_IN_TRAINING, *_NORMS)


def collapse(losses: ArrayLike, final: float | None = None, plain: float | None = None) -> str:
    """The reason why a run with these losses [steps] collapsed, empty if it did not.

    A loss is not finite; or the mean of the smoothed loss over the last 200 steps is more than 0.5
    above its minimum; or the `final` error is more than 1.5 times the `plain` one, that of the same
    model of one loop, if both are given. (arXiv 2605.18797 calls high plateaus, fluctuations and
    useless models collapse, without numbers: these are ours, for losses in nats or for squared
    errors over that of predicting zero.)
    """
    curve = np.asarray(losses, dtype=np.float64)
    if not np.isfinite(curve).all() or not (final is None or np.isfinite(final)):
        return "not finite"
    smooth = smoothed(curve, _DECAY)[_SETTLED - 1 :]
    if len(smooth) and smooth[-_LAST:].mean() > smooth.min() + _MARGIN:
        return f"ends {_MARGIN:g} above its best"
    if final is not None and plain is not None and final > _RATIO * plain:
        return f"error above {_RATIO:g} x that of one loop"
    return ""


def plateau_exit(losses: ArrayLike, threshold: float) -> int | None:
    """The first step (counted from 1, at least 50) whose smoothed loss is below `threshold`; None
    if there is none."""
    steps = np.flatnonzero(smoothed(losses, _DECAY)[_SETTLED - 1 :] < threshold)
    return int(steps[0]) + _SETTLED if len(steps) else None


def final_error(run: Run, settings: EvaluationConfig) -> float:
    """The error at b: bits per byte of a text, else the mean over prompts and numbers of examples,
    over that of predicting zero."""
    if run.task.is_text:
        _, arrays = evaluated(run, run.config.evaluation)
        return float(arrays["held_out"][:, trained_loops(run.config) - 1].mean())
    return float(np.mean(evaluated(run, settings)[1]["model_at_b"], dtype=np.float64))


def initial_error(config: Config) -> float:
    """The error of a model of pairs before training."""
    task, evaluation = build_task(config), config.evaluation
    prompts = evaluation_prompts(task, evaluation.prompts, config.task.points, evaluation.seed)
    with torch.no_grad():
        predictions = build_model(config, task)(prompts, config.loops.b)
    return loss(task.loss, predictions, prompts.ys).item() / task.divisor


def measure(
    runs: Sequence[Run], settings: EvaluationConfig, unfinished: Sequence[Config] = ()
) -> dict[str, Any]:
    """Compare connectivities and their numbers of loops K, beside LT of one loop, which is the same
    model for all: `plain`, its errors [seeds]. RunError for runs without the norms of each step.

    `variants` has by connectivity (with its attention, if that is not full) and K what is known of
    each seed, None where its run diverged or is not finished: the `error`; of pairs the `initial`
    one, and `left`, the step that leaves the plateau (None: never); `collapse`, the reason (empty:
    it did not); `swing`, the standard deviation of the change of the last loop's log residual norm
    over a step, from step 50 on; `rise`, that norm at the end over a fourth of the way; the swings
    of the gradients' norms over the first half of the steps, as `mlp_gradient_swing`; and the
    norms, at the end of training. Its `curves` are the smoothed norms and loss over the error of
    predicting zero, the mean over seeds, at `points`, counted from 1. `loops` are those above one.
    """
    configs = {_place(run.config): run.config for run in runs}
    for config in unfinished:
        configs[_place(config)] = config
    logs = {_place(run.config): _logged(run) for run in runs}
    errors = {_place(run.config): final_error(run, settings) for run in runs}
    seeds = sorted({seed for _, _, seed in configs})
    steps = runs[0].step
    plain = [errors.get(("LT", 1, seed)) for seed in seeds]
    known = [error for error in plain if error is not None]
    reference = float(np.mean(known)) if known else None
    points = [*range(_EVERY, steps, _EVERY), steps]
    variants: dict[str, dict[str, Any]] = {}
    for variant, K in dict.fromkeys((variant, K) for variant, K, _ in configs):
        places = [(variant, K, seed) for seed in seeds]
        rows = []
        for place in places:
            row = _of_run(configs[place], logs.get(place), errors.get(place), reference)
            rows.append(row)
        cell: dict[str, Any] = {name: [row.get(name) for row in rows] for name in _OF_RUN}
        finished = [logs[place] for place in places if place in logs]
        if finished:
            cell["curves"] = _smoothed_means(finished, points)
        variants.setdefault(variant, {})[str(K)] = cell
    return {
        "loops": sorted({K for _, K, _ in configs if K > 1}),
        "seeds": seeds,
        "steps": steps,
        "points": points,
        "rate": runs[0].config.training.learning_rate,
        "plain": plain,
        "left_below": LEFT,
        "size": _size(runs[0].config),
        "variants": variants,
    }


def _smoothed_means(
    logs: Sequence[Mapping[str, Floats]], points: Sequence[int]
) -> dict[str, list[float]]:
    """The mean over seeds of each metric, smoothed, at these steps."""
    at = np.array(points) - 1
    curves = {}
    for name in _METRICS:
        mean = np.mean([log[name] for log in logs], axis=0)
        curves[name] = smoothed(mean, _DECAY)[at].tolist()
    return curves


def panels(found: Mapping[str, Any]) -> list[Panel]:
    """What differs by the number of loops, then the curves of training."""
    return [*_by_loops(found), *_in_training(found)]


def _size(config: Config) -> str:
    """The layers and the width of a model."""
    number = config.model.n_layer
    return f"{number} layer{'s' * (number > 1)}, d = {config.model.n_embd}"


def _place(config: Config) -> tuple[str, int, int]:
    """Variant, number of loops and seed."""
    variant: str = config.model.connectivity or config.model.family
    if config.model.attention != "full":
        variant += f"_{config.model.attention}"
    return variant, trained_loops(config), config.seed


def logged_steps(run: Run) -> list[dict[str, float]]:
    """The record of each step; RunError for a run that left some out."""
    records = logged(run)
    if len(records) < run.step:
        raise RunError(f"{run.path} logged less than training.log_every=1 does")
    return records


def _logged(run: Run) -> dict[str, Floats]:
    """The loss over the error of predicting zero, and the norms, at each step."""
    records = logged_steps(run)
    if not records[0].keys() >= set(_NORMS):
        raise RunError(f"{run.path} logged less than training.log_norms=true does")
    log = {}
    for name in _METRICS:
        log[name] = np.array([record[name] for record in records], np.float64)
    log["loss"] = log["loss"] / run.task.divisor
    return log


def _of_run(
    config: Config, log: Mapping[str, Floats] | None, error: float | None, plain: float | None
) -> dict[str, Any]:
    """One run's part of a variant; `plain` is the mean error of one loop, if known."""
    initial = None if config.task.is_text else initial_error(config)
    if log is None:
        return {"initial": initial, "collapse": "no finished run"}
    steps = len(log["loss"])
    share = np.arange(1, steps + 1) / steps
    at_end = share > 1 - _END
    early = (share > _EARLY[0]) & (share <= _EARLY[1])
    norm = log["last_residual"]
    change = np.diff(np.log(norm))
    values: dict[str, Any] = {
        "error": error,
        "initial": initial,
        "left": None,
        "collapse": collapse(log["loss"], error, plain),
        "swing": float(change[_SETTLED:].std()),
        "rise": float(norm[at_end].mean() / norm[early].mean()),
    }
    for name, swing in _SWINGS.items():
        values[swing] = float(np.diff(np.log(log[name][: steps // 2])).std())
    if initial is not None:
        values["left"] = plateau_exit(log["loss"], LEFT * initial)
    for name in _NORMS:
        values[name] = float(log[name][at_end].mean())
    return values


def _by_loops(result: Mapping[str, Any]) -> list[Panel]:
    """Error, the step that leaves the plateau, and norms by loops, a curve for each variant."""
    variants = result["variants"]
    above_one = result["loops"]
    every = sorted({int(K) for by_loops in variants.values() for K in by_loops})
    plain = [error for error in result["plain"] if error is not None]
    levels = {"one loop": float(np.mean(plain))} if plain else {}
    axis = "bits per byte" if _are_texts(result) else ERROR
    below = f"step at which the smoothed loss falls below {LEFT:g} of the initial error"
    drawn = [
        _by_loop_numbers(result, "variants", "error", axis, above_one, log="x", levels=levels),
        _by_loop_numbers(result, "variants-plateau", "left", below, above_one, log="x"),
    ]
    for name in _NORMS:
        file = f"norms-{name.replace('_', '-')}"
        axis = f"{_METRICS[name]}, at the end of training"
        drawn.append(_by_loop_numbers(result, file, name, axis, every, log="y"))
    return [panel for panel in drawn if panel.curves]


def _by_loop_numbers(
    result: Mapping[str, Any], file: str, quantity: str, axis: str, loops: Sequence[int], **how: Any
) -> Panel:
    """A quantity by the number of loops, a curve for each variant that has it."""
    nothing = {quantity: [None] * len(result["seeds"])}
    curves = []
    for variant, by_loops in result["variants"].items():
        cells = [by_loops.get(str(K), nothing) for K in loops]
        values = np.array([cell[quantity] for cell in cells], np.float64)
        if np.isfinite(values).any():
            curves.append(Curve.of(variant, variant, mean_of_seeds(values.T)))
    reasons = [reason for cell in _cells(result) for reason in cell["collapse"]]
    lost = f"{sum(map(bool, reasons))} of {len(reasons)} runs collapsed or unfinished"
    title = f"{result['steps']:,} steps; {lost}"
    return Panel(file, title, "loops K", axis, loops, curves, **how)


def _cells(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What is known of each variant at each number of loops above one."""
    cells = []
    for by_loops in result["variants"].values():
        cells += [by_loops[str(K)] for K in result["loops"] if str(K) in by_loops]
    return cells


def _are_texts(result: Mapping[str, Any]) -> bool:
    """Says whether no run has an initial error, which only those on pairs have."""
    return all(initial is None for cell in _cells(result) for initial in cell["initial"])


def _in_training(result: Mapping[str, Any]) -> list[Panel]:
    """The curves of each connectivity and metric, one for each number of loops (Figures 2 and 3),
    without intervals."""
    seeds = len(result["seeds"])
    about = f"{seeds} seed{'s' if seeds > 1 else ''}, rate {result['rate']:g}"
    axes = (f"step ({about})", "")
    panels = []
    for variant, by_loops in result["variants"].items():
        for metric, label in _METRICS.items():
            curves = []
            for K, cell in by_loops.items():
                values = cell.get("curves", {}).get(metric)
                if values is not None:
                    interval = without_interval(values)
                    curves.append(Curve.of(f"K = {K}", "loops", interval, number=int(K)))
            if curves:
                name = f"fully-looped-{variant}-{metric.replace('_', '-')}"
                title = f"{variant}: {label}"
                picture = f"fully_looped-{variant}"
                points = result["points"]
                panels.append(Panel(name, title, *axes, points, curves, log="y", picture=picture))
    return panels


def error_growth(evidence: Evidence, variant: str) -> Estimate:
    """The error of a variant at the most loops over that at the fewest, of the same seeds."""
    result = _of_pairs(evidence)
    many = _of_cell(result, variant, -1, "error")
    few = _of_cell(result, variant, 0, "error")
    initial = np.mean(_cell(result, variant, 0)["initial"])
    if variant != "LT" and few.mean() > result["left_below"] * initial:
        raise NotMeasured(f"{variant} is on the plateau with the fewest loops already")
    return _error_ratio(result, many, few)


def error_over_variant(evidence: Evidence, variant: str, over: str) -> Estimate:
    """The error of a variant at the most loops over that of another there, of the same seeds."""
    result = _of_pairs(evidence)
    above = _of_cell(result, variant, -1, "error")
    below = _of_cell(result, over, -1, "error")
    return _error_ratio(result, above, below)


def error_over_one_loop(evidence: Evidence, variant: str) -> Estimate:
    """The error of a variant at the most loops over that of one loop, of the same seeds."""
    result = _of_pairs(evidence)
    above = _of_cell(result, variant, -1, "error")
    below = _known(result["plain"], "one loop")
    return _error_ratio(result, above, below)


def _of_pairs(evidence: Evidence) -> Any:
    """The result for pairs; NotMeasured if a model of one loop has not learned either."""
    result = evidence.result("fully_looped")
    plain = _known(result["plain"], "one loop")
    loops = result["loops"]
    initial = np.mean([result["variants"]["LT"][str(K)]["initial"] for K in loops])
    if plain.mean() > result["left_below"] * initial:
        raise NotMeasured("one loop is still on the plateau: too few steps")
    return result


def _known(values: Sequence[float | None], what: str) -> Floats:
    """The values of all seeds."""
    if any(value is None for value in values):
        raise NotMeasured(f"{what}: a run's error is not finite, or the run not finished")
    return np.array(values, dtype=np.float64)


def _cell(result: Any, variant: str, place: int) -> Any:
    """What is known of a variant at the `place`-th number of loops."""
    loops = result["loops"][place]
    return result["variants"][variant][str(loops)]


def _of_cell(result: Any, variant: str, place: int, quantity: str) -> Floats:
    """One quantity of a variant at the `place`-th number of loops, [seeds]."""
    loops = result["loops"][place]
    cell = _cell(result, variant, place)
    if quantity not in cell:
        raise NotMeasured(f"the {quantity} was not measured")
    return _known(cell[quantity], f"{variant}, K = {loops}")


def _error_ratio(result: Any, above: Floats, below: Floats) -> Estimate:
    if len(result["loops"]) < 2:
        raise NotMeasured("one number of loops")
    return _sized(over_seeds(above / below, log=True), result)


def _sized(estimate: Estimate, result: Any) -> Estimate:
    """The estimate with the steps and the size of the models."""
    size = result.get("size", "2 layers, d = 32")  # that of results without it
    return estimate._replace(steps=result["steps"], size=size)


def bits_growth(evidence: Evidence, variant: str) -> Estimate:
    """The bits per byte of a variant at the most loops over those at the fewest."""
    models = _on_texts(evidence, variant)
    return ratio([(models[-1], models[0])], bits)


def bits_over_variant(evidence: Evidence, variant: str, over: str) -> Estimate:
    """The bits per byte of a variant at the most loops over those of another there."""
    models = _on_texts(evidence, variant)
    others = _on_texts(evidence, over)
    return ratio([(models[-1], others[-1])], bits)


def bits_ratio(
    evidence: Evidence, variant: str, loops: int, over: str, over_loops: int
) -> Estimate:
    """The bits per byte of a variant of so many loops over those of another of so many."""
    (above,) = groups(evidence, name="language", connectivity=variant, b=loops)
    (below,) = groups(evidence, name="language", connectivity=over, b=over_loops)
    return ratio([(above, below)], bits)


def bits_last_step(evidence: Evidence, variant: str) -> Estimate:
    """The bits per byte of a variant at the most loops over those at the next fewer."""
    *_, before, last = _on_texts(evidence, variant)
    return ratio([(last, before)], bits)


def least_bits_step(evidence: Evidence, variant: str) -> Estimate:
    """The bits per byte of a variant over those at the number of loops before, of the step of
    numbers at which they are least certain to rise."""
    models = _on_texts(evidence, variant)
    return lowest(ratio([(many, few)], bits) for few, many in pairwise(models))


def bits_by_width(evidence: Evidence, variant: str, over: str) -> Estimate:
    """The ratio of a variant's bits per byte to another's, of the widest models over that of the
    narrowest."""
    ours = groups(evidence, name="language", connectivity=variant)
    theirs = groups(evidence, name="language", connectivity=over)
    if ours[0].config.model.n_embd == ours[-1].config.model.n_embd:
        raise NotMeasured("one width")
    # The geometric mean of two ratios is the root of the quotient that is asked.
    root = ratio([(ours[-1], theirs[-1]), (theirs[0], ours[0])], bits)
    return root._replace(mean=root.mean**2, low=root.low**2, high=root.high**2)


def _on_texts(evidence: Evidence, variant: str) -> list[Trainings]:
    """The groups of a variant of more than one loop, by their loops; NotMeasured for fewer than
    two."""
    models = groups(evidence, name="language", connectivity=variant)
    looped = [model for model in models if model.b > 1]
    if len(looped) < 2:
        raise NotMeasured(f"{variant} has one number of loops")
    return sorted(looped, key=lambda model: model.b)


def quantity_growth(evidence: Evidence, variant: str, quantity: str) -> Estimate:
    """A quantity at the most loops over that at the fewest, of the same seeds."""
    result = evidence.result("fully_looped")
    if len(result["loops"]) < 2:
        raise NotMeasured("one number of loops")
    evidence.where(connectivity=variant)
    few = _of_cell(result, variant, 0, quantity)
    many = _of_cell(result, variant, -1, quantity)
    return over_seeds(many / few, log=True)


def quantity_over_variant(evidence: Evidence, variant: str, over: str, quantity: str) -> Estimate:
    """A quantity of a variant at the most loops over that of another there, of the same seeds."""
    result = evidence.result("fully_looped")
    evidence.where(connectivity=variant)
    above = _of_cell(result, variant, -1, quantity)
    below = _of_cell(result, over, -1, quantity)
    return _sized(over_seeds(above / below, log=True), result)


def rise_where_loss_stands(evidence: Evidence, variant: str) -> Estimate:
    """The norm after the last loop at the end of training over that at a fourth of the steps, of
    the seeds of a variant at the most loops whose loss stands: that collapse or, on pairs, do not
    leave the plateau."""
    result = evidence.result("fully_looped")
    evidence.where(connectivity=variant)
    rises = _of_cell(result, variant, -1, "rise")
    cell = _cell(result, variant, -1)
    runs = zip(rises, cell["collapse"], cell["initial"], cell["left"], strict=True)
    standing = []
    for rise, reason, initial, left in runs:
        is_on_plateau = initial is not None and left is None
        if reason or is_on_plateau:
            standing.append(rise)
    if not standing:
        raise NotMeasured(f"{variant}: no seed's loss stands")
    estimate = over_seeds(standing, log=True)
    note = f"{len(standing)} of {len(rises)} seeds, those whose loss stands"
    return _sized(estimate._replace(note=note), result)


def least_share_collapsed(evidence: Evidence, variants: Sequence[str]) -> Estimate:
    """The share of the seeds that collapse at the most loops, of the variant that collapses
    least."""
    shares = [share_collapsed(evidence, variant) for variant in variants]
    return lowest(shares)


def most_share_collapsed(evidence: Evidence, variants: Sequence[str]) -> Estimate:
    """The share of the seeds that collapse at the most loops, of the variant of FLT that collapses
    most."""
    evidence.where(connectivity="FLT")
    return highest(share_collapsed(evidence, variant) for variant in variants)


def share_collapsed(evidence: Evidence, variant: str, loops: int | None = None) -> Estimate:
    """The share of the seeds that collapse with so many loops, where not given the most, with
    Jeffreys' interval, the 90 % of a beta distribution: that of no spread between few seeds is not
    0."""
    result = evidence.result("fully_looped")
    number = loops or result["loops"][-1]
    if number not in result["loops"]:
        raise NotMeasured(f"no {variant} of {number} loops")
    reasons = result["variants"][variant][str(number)]["collapse"]
    if "no finished run" in reasons:
        raise NotMeasured(f"{variant}: a run of {number} loops is not finished")
    seeds = len(reasons)
    lost = sum(map(bool, reasons))
    low, high = map(float, betaincinv(lost + 0.5, seeds - lost + 0.5, [0.05, 0.95]))
    share = lost / seeds  # 0 and 1 lie outside of their own intervals
    return _sized(Estimate(share, min(low, share), max(high, share), seeds), result)


def last_residual_over_first(evidence: Evidence, variant: str) -> Estimate:
    """The residual norm after the last loop over that after the first, at the most loops."""
    result = evidence.result("fully_looped")
    evidence.where(connectivity=variant)
    first = _of_cell(result, variant, -1, "first_residual")
    last = _of_cell(result, variant, -1, "last_residual")
    return _sized(over_seeds(last / first, log=True), result)


def over_full_attention(evidence: Evidence, attention: str) -> Estimate:
    """The mean error of FLT with another attention over that with full attention; of texts bits per
    byte."""
    other = groups(evidence, connectivity="FLT", attention=attention)[-1]
    full = groups(evidence, connectivity="FLT", attention="full")[-1]
    return ratio([(other, full)], bits if full.config.task.is_text else over_examples)


def drawn_loops_over_fixed(evidence: Evidence) -> Estimate:
    """The last query's error after twice the loops of training, drawn loops over as many in the
    mean."""
    (drawn,) = groups(evidence, connectivity="FLT", sampling="uniform")
    (fixed,) = groups(evidence, connectivity="FLT", sampling="none", b=drawn.b)
    return ratio([(drawn, fixed)], after(2))


def trained_loops_over_fewer(evidence: Evidence, least: int) -> Estimate:
    """The last query's error after the loops of training over that after one, three or half as
    many, of the model of at least so many loops and the number at which it is largest."""
    ratios = []
    for model in _fixed_loops(evidence, least):
        for fewer in (1, 3, model.b // 2):
            at_fewer = partial(at_loop, loop=fewer)
            ratios.append(within([[model]], [at_b], [at_fewer]))
    return highest(ratios)


def spread_beyond_over_within(evidence: Evidence, least: int) -> Estimate:
    """The largest less the smallest error from the loops of training to twice as many, over the
    same from half as many on, of the model of at least so many loops at which it is least."""
    ratios = []
    for model in _fixed_loops(evidence, least):
        errors = loop_errors(model)
        if errors.shape[-1] < 2 * model.b:
            raise NotMeasured(f"{model.runs[0].label} was not followed for twice its loops")
        ratios.append(hierarchical_bootstrap([errors], _ratio_of_spreads(model.b), log=True))
    return lowest(ratios)


def _ratio_of_spreads(b: int) -> Callable[[Sequence[Floats]], Floats]:
    """The range of mean errors [..., loops] over loops b to 2 b over that over b/2 to b."""

    def statistic(means: Sequence[Floats]) -> Floats:
        beyond = np.ptp(means[0][..., b - 1 : 2 * b], axis=-1)
        before = np.ptp(means[0][..., b // 2 - 1 : b], axis=-1)
        return np.asarray(beyond / before)

    return statistic


def _fixed_loops(evidence: Evidence, least: int) -> list[Trainings]:
    """FLT trained with one number of loops, at least so many."""
    models = groups(evidence, connectivity="FLT", sampling="none")
    enough = [model for model in models if model.b >= least]
    if not enough:
        raise NotMeasured(f"no FLT of {least} or more loops")
    return enough
