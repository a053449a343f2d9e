"""For the claims that no frozen evidence decides (tests/golden/claims.py has the others'), evidence
that each holds on, and evidence made to contradict it. Of claims that read the same number of
other runs one is here."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from torch import Generator

from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.evaluated_run import EvaluatedRun
from looplab.evaluation.statistics import Estimate
from looplab.experiments.definition import Member, load, members_of
from looplab.experiments.evidence import Evidence
from looplab.tasks import SHIFTS
from looplab.tasks.least_squares import least_squares, ridge
from looplab.training.assemble import build_task

from .synthetic import Made, evidence, language, seeds


def beside(changed: Mapping[str, Any], *others: Mapping[str, Any]) -> Made:
    """Runs with several settings, of which the first have errors `ratio` times as large."""

    def made(ratio: float) -> Evidence:
        return evidence(seeds(level=0.1 * ratio, **changed), *(seeds(**each) for each in others))

    return made


def halted(ratio: float) -> Evidence:
    """The ratio of mean loops, trained halting over measured."""
    estimate = Estimate(ratio, 0.99 * ratio, 1.01 * ratio, 3).plain()
    group = {"task": "linear", "act_over_measured": estimate}
    return evidence(seeds(), halting={"groups": [group]})


def trained(loops: int, **found: Any) -> dict[str, Any]:
    """What is found of a trained run of so many loops."""
    about = {"what": f"R = {loops}", "unfinished": [], "step": 600, "scaling": "linear"}
    return {**about, "loops": loops, **found}


def branches(ratio: float) -> Evidence:
    """The branches of two seeds: the largest of four layers at the most loops is `ratio` times the
    smallest of one."""
    sizes = {
        "1": {"by_seed": [[[1.0, 1.0], [1.1, 1.1]], [[1.01, 1.01], [1.1, 1.1]]]},
        "4": {"by_seed": [[[1.0, 1.02], [1.1, ratio]]] * 2},
    }
    result = {"branches": sizes, "width": 8}
    return evidence(residual_scaling_toy=result)


def redrawn(part: str) -> Made:
    """What a layer that is drawn anew does at two numbers of loops, three seeds: moves that are
    `ratio` times √(4/12) times as large in twelve layers as in four, or cosines of that size."""

    def made(ratio: float) -> Evidence:
        seeds_of = (0.99, 1.0, 1.01)
        by_layers = {}
        for U, factor in ((4, 1.0), (12, ratio * (4 / 12) ** 0.5)):
            values = [[factor * n, factor * n] for n in seeds_of]
            by_layers[str(U)] = {"by_seed": values}
        alike = {"12": {"by_seed": [[0.01 * n, ratio * n] for n in seeds_of]}}
        result = {"moved": by_layers, "alike": alike, "width": 8}
        return evidence(residual_scaling_toy={"width": 8, part: result[part]})

    return made


def less_alike(ratio: float) -> Evidence:
    """Two trained runs whose increments have `ratio` times the cosine of those before training."""
    runs = [trained(R, apart=0.8 * ratio * f, apart_at_start=0.8) for R, f in ((4, 0.99), (8, 1.0))]
    return evidence(trained_increments={"runs": runs})


def in_training(quantity: str, over: str) -> Made:
    """A quantity of LT at eight loops that is so many times that of another variant."""

    def made(ratio: float) -> Evidence:
        variants = {
            "LT": {"8": {quantity: [0.99 * ratio, ratio]}},
            over: {"8": {quantity: [1.0, 1.0]}},
        }
        result = {"loops": [2, 8], "steps": 800, "variants": variants}
        return evidence(seeds(connectivity="LT"), fully_looped=result)

    return made


def standing(ratio: float) -> Evidence:
    """Two seeds of LT that stay on the plateau and whose norm rises so many times, and one that
    learns."""
    cell = {
        "rise": [0.99 * ratio, ratio, 1 / ratio],
        "collapse": [""] * 3,
        "initial": [1.0] * 3,
        "left": [None, None, 400],
    }
    result = {"loops": [2, 8], "steps": 800, "variants": {"LT": {"8": cell}}}
    return evidence(seeds(connectivity="LT"), fully_looped=result)


def change_by_octaves(bend: float) -> Evidence:
    """A change by the first step that rises alike over five octaves of loops, and by `bend` an
    octave more over the first two and a half."""
    loops = [1, 2, 4, 32]
    octaves = np.log2(loops)
    changes = np.exp(0.1 * octaves + bend * np.minimum(octaves, 2.5))
    by_seed = [[[change * factor] for change in changes] for factor in (1.0, 1.01)]
    raw = {"linear": {"by_seed": by_seed}}
    about = {"init": {"layers": 1, "width": 8}, "loops": loops}
    found = {**about, "change": {"raw": raw}}
    return evidence(update_changes=found)


def shared_cache(ratio: float) -> Evidence:
    """Bits per byte with shared keys and values that are so many times those of each loop's own."""
    estimate = Estimate(ratio, 0.999 * ratio, 1.001 * ratio, 3).plain()
    groups = [{"loops": 12, "shared_over_own": estimate}]
    return evidence(language(2.0, 12), inference={"groups": groups})


def counted(count: str, *names: str) -> Made:
    """Counts of 1, but for the first of these, which is the value."""

    def made(value: float) -> Evidence:
        counts = {name: {count: value if name == names[0] else 1.0} for name in names}
        return evidence(counts={"counts": counts})

    return made


def moved(value: float) -> Evidence:
    """A new model whose stream moves so far."""
    return evidence(counts={"moved": {"FLT": value}})


def under_noise(part: float) -> Evidence:
    """Runs whose errors under noise are so much of the way from the best ridge regression to least
    squares, in logarithms."""
    config = seeds(1)[0].config
    task, settings = build_task(config), config.evaluation
    generator = Generator().manual_seed(settings.seed)
    shifted = SHIFTS["noise"].sample(task, generator, settings.prompts, config.task.points)
    xs, ys = shifted.prompts.xs.double().numpy(), shifted.prompts.ys.double().numpy()
    of_ridge = np.square(ridge(xs, ys, xs, 1.0) - ys) / task.divisor
    of_least_squares = np.square(least_squares(xs, ys, xs) - ys) / task.divisor
    between = (of_least_squares.mean(0) / of_ridge.mean(0)) ** part
    runs = []
    for member in seeds():
        arrays = {**member.arrays, "noise/model_at_b": of_ridge * between}
        runs.append(replace(member, arrays=arrays))
    return Evidence(runs)


def by_layers(ratio: float, beyond: float = 1.0) -> Evidence:
    """A block of two layers and one of one layer with `ratio` times its error until b = 8 loops,
    and `beyond` times that later."""
    runs = []
    for layers, factor in ((1, ratio), (2, 1.0)):
        for member in seeds(n_layer=layers):
            member.arrays["by_loop"] *= factor
            member.arrays["by_loop"][:, 8:] *= beyond
            runs.append(member)
    return Evidence(runs)


def arriving(ratio: float) -> Evidence:
    """A block of one layer whose error falls at the tenth loop of twelve, and one of two layers,
    at which it falls after `ratio` times as many."""
    runs = []
    for layers, fall in ((1, 10), (2, round(10 * ratio))):
        for member in seeds(n_layer=layers, b=12):
            by_loop = level(0.1, 120)
            by_loop[:, : fall - 1] *= 9
            runs.append(replace(member, arrays={**member.arrays, "by_loop": by_loop}))
    return Evidence(runs)


def probed_by_layer(place: float) -> Evidence:
    """Probes of ten layers, of which the one at this place errs least."""
    means = np.full(11, 0.5)
    means[round(10 * place)] = 0.4
    ends = {"low": (0.99 * means).tolist(), "high": (1.01 * means).tolist()}
    found = {"b": 10, "targets": {"gradient": {"error": {"mean": means.tolist(), **ends}}}}
    return evidence(seeds(family="standard", n_layer=10), probing={"standard": [found] * 3})


def growing(ratio: float) -> Evidence:
    """Two classes with 4 and 12 loops, of which the second's error grows by a factor beyond 12."""
    runs = []
    for task, factor in (("linear", 1.0), ("relu_network", ratio)):
        for b in (4, 12):
            for member in seeds(task=task, b=b):
                member.arrays["by_loop"][:, b:] *= factor
                runs.append(member)
    return Evidence(runs)


def minima(missed: str = "", over: str = "fit", **found: Any) -> Made:
    """The law of the minima: that misses `ratio` times as much with one φ as with another, or with
    a φ of the value."""

    def made(value: float) -> Evidence:
        phi = {"value": value, "low": value - 0.01, "high": value + 0.01}
        law = {"phi": phi, "share": 0.5, "loops": 4, "size": 4e8, "cost": 1e9 * value}
        losses = {name: [9.0, 9.1] for name in ("0 held", "1 held")}
        losses[over] = [1.0, 1.1]
        if missed:
            losses[missed] = [1.0 * value, 1.11 * value]
        return evidence(iso_depth_minima={**law, "missed": losses, **found})

    return made


def sums(**found: Callable[[float], Any]) -> Made:
    """What sums are made of, two seeds: each part by the value."""

    def made(value: float) -> Evidence:
        result: dict[str, Any] = {"width": 8, "loops": [4, 16], "layers": [1, 4]}
        for name, of in found.items():
            result[name] = {"by_seed": [of(value), of(value * 1.001)]}
        if "share" in result:
            result["share"] = {"looped": result["share"], "non_shared": result["share"]}
        return evidence(residual_sums=result)

    return made


def first_steps(ratio: float) -> Evidence:
    """A norm that is `ratio` times as large after ten steps."""
    norm = {"by_seed": [[1.0, ratio], [1.0, 1.01 * ratio]]}
    return evidence(first_steps={"norm": norm, "loops": 64, "layers": 4})


# Of texts.
def loops_of(variant: str, other: str = "") -> Made:
    """A variant of 2 and 8 loops, whose ratio is the value; with another variant, that over it."""

    def made(ratio: float) -> Evidence:
        found, least = list[EvaluatedRun](), {"block": "flt", "injection": "none"}
        for connectivity, factor in ((variant, ratio), *([(other, 1.0)] if other else [])):
            found += language(2.0, 2, connectivity=connectivity, **least)
            found += language(2.0 * factor, 8, connectivity=connectivity, **least)
        norms = {
            str(b): {"first_residual": [end * (1 + 0.01 * seed) for seed in range(3)]}
            for b, end in ((2, 1.0), (8, ratio))
        }
        return evidence(found, fully_looped={"loops": [2, 8], "variants": {variant: norms}})

    return made


def last_step(ratio: float) -> Evidence:
    """LT of 2, 4 and 8 loops, whose bits per byte rise by the first step and are so many times as
    many by the second."""
    found, level = list[EvaluatedRun](), 2.0
    for b, factor in ((2, 1.0), (4, 1.2), (8, ratio)):
        level *= factor
        found += language(level, b, connectivity="LT", block="flt", injection="none")
    return Evidence(found)


def wide(ratio: float) -> Evidence:
    """FLT and LT_i at two widths, the wide FLT with so many times the others' bits per byte."""
    found = list[EvaluatedRun]()
    for connectivity, width in product(("FLT", "LT_i"), (32, 64)):
        level = 2.0 * ratio if (connectivity, width) == ("FLT", 64) else 2.0
        shape = {"connectivity": connectivity, "n_embd": width, "injection": "none"}
        found += language(level, 8, block="flt", **shape)
    return Evidence(found)


def best_rate_moves(octaves: float) -> Evidence:
    """A movement of the best rate."""
    moved = {"by_seed": [octaves, 0.99 * octaves, 1.01 * octaves]}
    result = {"loops": [1, 8], "move": {"linear": moved}, "best": {}}
    return evidence(language(2.0, 8), residual_scaling_rates=result)


def iso_phi(value: float) -> dict[str, Any]:
    """A φ with its interval."""
    return {"value": value, "low": value - 0.1, "high": value + 0.1, "not_determined": ""}


def iso_flop(kind: str = "") -> Made:
    """φ of the law; with a kind its φ less that of all gradients."""

    def made(value: float) -> Evidence:
        plain = iso_phi(0.5 if kind else value)
        found = {"gradients of all loops": plain, kind: iso_phi(0.5 + value)}
        return evidence(language(2.0, 8), language_iso_depth={"phi": found, "points": points()})

    return made


def shared(ratio: float) -> Evidence:
    """Budgets at which each r has so many times the loss of the next smaller one."""
    minima = {
        str(budget): {
            str(r): 1.5 * (ratio + 0.001 * (budget - 12)) ** i for i, r in enumerate((1, 2, 4, 8))
        }
        for budget in (12, 13)
    }
    found = {"minima": minima, "vertices": minima, "points": points()}
    return evidence(language(2.0, 8), language_iso_depth=found)


def lower_loss(kind: str) -> Made:
    """A kind of runs with so many times the loss of plain ones at each budget and r."""

    def made(ratio: float) -> Evidence:
        found = {"points": [*points(), *points(kind, ratio)]}
        return evidence(language(2.0, 8), language_iso_depth=found)

    return made


def points(kind: str = "gradients of all loops", ratio: float = 1.0) -> list[dict[str, Any]]:
    """Runs of a kind with so many times the same losses, which scatter a little; those with all
    gradients have a width more, of less loss, which no other kind is compared with."""
    cells = list(product((2, 4), (12.0, 12.5)))
    losses = [2.0 * ratio, 2.1 * ratio, 2.2 * ratio, 2.31 * ratio**1.01]
    widths = {64: 1.0} if kind != "gradients of all loops" else {64: 1.0, 96: 0.5}
    runs = []
    for (r, budget), loss in zip(cells, losses, strict=True):
        for width, factor in widths.items():
            cell = {"kind": kind, "r": r, "budget": budget, "width": width}
            runs.append({**cell, "loss": factor * loss})
    return runs


def told_apart(value: float) -> Evidence:
    """Two kinds of less loss: one raises φ by the value, the other lowers it by as much."""
    kinds = {"gradients of all loops": 0.5, "lanes": 0.5 + value}
    kinds["gradients of half the loops"] = 0.5 - value
    runs = [*points(), *points("lanes", 0.9), *points("gradients of half the loops", 0.95)]
    found = {"points": runs, "phi": {kind: iso_phi(phi) for kind, phi in kinds.items()}}
    return evidence(language(2.0, 8), language_iso_depth=found)


def twenty_runs(off: float) -> Evidence:
    """A φ that is off by so much, either way."""
    return evidence(iso_depth_minima={"off": [off, -off, 0.9 * off, -0.9 * off]})


def published_minima(ratio: float) -> Evidence:
    """Two budgets, at each of which r = 2 and 4 have `ratio` times the loss of half as many."""
    losses = [ratio**i * more for more in (2.0, 2.001) for i in range(3)]
    table = {"r": [1.0, 2.0, 4.0] * 2, "budget": [1e18] * 3 + [1e19] * 3, "loss": losses}
    table["loss"][-1] *= 1.0001
    return evidence(iso_depth_minima={"minima": table})


# Of the runs of an experiment.
def of_experiment(name: str, arrays: Callable[[Member, float], dict[str, Any]]) -> Made:
    """Its runs, with arrays for each run and value."""

    def made(value: float) -> Evidence:
        members = members_of(load(name), "small")
        steps = [each.config.training.steps for each in members]
        return Evidence([
            EvaluatedRun(each.label, each.config, step, arrays(each, value))
            for each, step in zip(members, steps, strict=True)
        ])  # fmt: skip

    return made


def drawn_loops(member: Member, ratio: float) -> dict[str, Any]:
    """Errors that rise linearly from b loops to 3 b, with variances that are `ratio` times as large
    where the loops of training were drawn; before and beyond others, which do not count."""
    rise = np.arange(13) * (1 + 0.01 * member.config.seed) / 100
    rise = rise * (1.0 if member.config.loops.sampling == "none" else ratio**0.5)
    by_loop = np.concatenate(([9.0] * 5, 0.1 + rise, [7.0] * 3))
    return {"by_loop": np.tile(by_loop, (8, 1)), "model_at_b": np.full((8, 7), 0.1)}


def bits(member: Member, loops: int) -> Floats:
    """About two bits per byte after each loop."""
    rng = np.random.default_rng([member.config.seed, len(member.label)])
    return 2 + 0.002 * rng.normal(size=(30, loops)) + 0.1 * np.linspace(-1, 1, 30)[:, None]


def useful(which: Mapping[int, Callable[[Floats, float], Floats]]) -> Made:
    """Runs with the loss of so many loops of the 12 of training, each with its factor of the bits
    per byte after so many loops of 48 by the value."""

    def arrays(member: Member, value: float) -> dict[str, Any]:
        factor = which.get(member.config.loops.T)
        factors = factor(np.arange(1.0, 49.0), value) if factor else 1.0
        return {"held_out": bits(member, 48) * factors}

    return of_experiment("language_test_loops", arrays)


def of_flt(factor: Callable[[Floats, float], Floats]) -> Made:
    """Runs of language_fully_looped_fig5, with a factor of their bits per byte by loop."""

    def arrays(member: Member, value: float) -> dict[str, Any]:
        return {"held_out": bits(member, 24) * factor(np.arange(1.0, 25.0), value)}

    return of_experiment("language_fully_looped_fig5", arrays)


def waver(loops: Floats, value: float) -> Floats:
    """A rise up to 12 loops, then one that is `value` times as high over twice as many."""
    return 1 + 0.01 * np.minimum(loops, 12) + 0.005 * value * np.maximum(loops - 12, 0)


def latent(member: Member, value: float) -> dict[str, Any]:
    """So many times the bits per byte with latent attention."""
    factor = value if member.config.model.attention == "latent" else 1.0
    return {"held_out": bits(member, 24) * factor}


def beyond(loops: Floats, value: float) -> Floats:
    """Ones up to 12 loops, then the value."""
    return np.where(loops > 12, value, 1.0)


def until(power: int) -> Callable[[Floats, float], Floats]:
    """Twos up to 8 loops, times a power of the value; then ones."""
    return lambda loops, value: np.where(loops < 8 * value**power, 2.0, 1.0)


def depth(label: str, loop: int | None = None) -> Made:
    """The runs of language_depth, of which those whose label begins so have `value` times as many
    bits per byte, after one number of loops or after each."""

    def arrays(member: Member, value: float) -> dict[str, Any]:
        found = bits(member, 16)
        if member.label.startswith(label):
            found[:, slice(None) if loop is None else loop - 1] *= value
        return {"held_out": found}

    return of_experiment("language_depth", arrays)


def turning(prompts: Mapping[int, int]) -> Made:
    """The runs of few_prompts, whose error halves with each doubling of distinct prompts and is
    half at these numbers of them, by dimensions, at `value` times as many for looped models."""

    def arrays(member: Member, value: float) -> dict[str, Any]:
        task = member.config.task
        is_looped = member.config.model.family == "looped"
        turn = prompts[task.dims] * (value if is_looped else 1.0)
        return {"model_at_b": level(0.5 * turn / task.distinct_prompts, task.points)}

    return of_experiment("few_prompts", arrays)


def by_depth(member: Member, ratio: float) -> dict[str, Any]:
    """Errors that are `ratio` times as large for each step from 1 to 2 to 6 layers."""
    model = member.config.model
    step = [1, 2, 6].index(model.n_layer) if model.family == "standard" else 1
    return {"model_at_b": level(0.5 * ratio**step, member.config.task.points)}


def one_layer(member: Member, ratio: float) -> dict[str, Any]:
    """Errors that are `ratio` times as large for a standard model of one layer."""
    model = member.config.model
    times = ratio if model.family == "standard" and model.n_layer == 1 else 1.0
    return {"model_at_b": level(0.5 * times, member.config.task.points)}


def one_recipe(member: Member, ratio: float) -> dict[str, Any]:
    """Errors that are `ratio` times as large on trees where weights decay."""
    config = member.config
    is_changed = config.task.name == "decision_tree" and config.training.weight_decay > 0
    return {"model_at_b": level(0.1 * ratio if is_changed else 0.1, config.task.points)}


def over_the_window(member: Member, ratio: float) -> dict[str, Any]:
    """Errors that are `ratio` times as large over the last four loops of four as of twelve."""
    by_loop = level(9.0, 36)
    b = member.config.loops.b
    by_loop[:, b - 4 : b] = level(0.1 * ratio if b == 4 else 0.1, 4)
    return {"by_loop": by_loop, "model_at_b": level(0.1, member.config.task.points)}


def level(error: float, columns: int) -> Floats:
    """Errors of about this level, [prompts, columns]; prompts are hard or easy for all alike."""
    hard = np.random.default_rng(0).uniform(0.8, 1.2, (50, 1))
    return error * hard / hard.mean() * np.ones(columns)


def probed_at(ratio: float) -> Evidence:
    """Probes at three rates, with `ratio` times the error at the second."""

    def probing(error: float) -> dict[str, Any]:
        means = np.array([9.0, error, error])
        ends = {"low": (0.98 * means).tolist(), "high": (1.02 * means).tolist()}
        return {"targets": {"gradient": {"error": {"mean": means.tolist(), **ends}}}}

    errors = {"0.01": 0.5, "0.001": 0.4 * ratio, "0.0001": 0.4}
    rates = {rate: {"looped": [probing(error)] * 3} for rate, error in errors.items()}
    return evidence(seeds(), probe_rates=rates)


def penalised(ratio: float) -> Evidence:
    """The Lasso's error at a penalty over the least of the others."""
    found = Estimate(ratio, 0.99 * ratio, 1.01 * ratio, 1).plain()
    return evidence(lasso_penalty={"dims": 20, "over_others": {"0.01": found}})


_SPARSE = {"task": "sparse_linear"}
# The claim, the evidence by the value of its quantity, a value that it holds at, one it fails at.
SCENARIOS: Mapping[str, tuple[Made, float, float]] = {
    "act_beats_measured_halting": (halted, 0.8, 1.2),
    "fig06_noise_like_ridge": (under_noise, 0.2, 0.8),
    "fig07_one_layer_is_enough_at_equal_depth": (lambda ratio: by_layers(2.0, ratio / 2), 1.0, 2.0),
    "fig07_deeper_blocks_arrive_sooner": (arriving, 0.5, 1.2),
    "fig07_more_heads_help": (
        beside({"n_head": 8, "n_embd": 32}, {"n_head": 2, "n_embd": 32}),
        *(0.7, 1.5),
    ),
    "fig08_standard_gradient_is_best_halfway": (probed_by_layer, 0.5, 0.1),
    "fig09_stays_beyond_b": (growing, 1.0, 2.0),
    "fig12_sparse_small_T_is_worse": (beside({**_SPARSE, "T": 2}, {**_SPARSE, "T": 4}), 1.5, 0.7),
    "iso_depth_minima_recurrence_is_worth_something": (minima(), 0.5, -0.5),
    "iso_depth_minima_worth_of_410M": (minima(), 0.46, 1.0),
    "iso_depth_minima_cost_of_410M": (minima(), 1.0, 1.2),
    "iso_depth_minima_other_phi_misses": (minima("0 held"), 4.0, 1.0),
    "iso_depth_minima_refit_misses_less": (minima("1 refitted", over="1 held"), 0.5, 2.0),
    "iso_depth_minima_sharing_costs": (published_minima, 1.01, 0.99),
    "iso_depth_minima_twenty_runs_tell": (twenty_runs, 0.02, 0.08),
    "scaling_first_steps_sqrt_explodes": (first_steps, 3.0, 1.0),
    "scaling_fig4_linear_rises": (change_by_octaves, 0.1, -0.3),
    "scaling_fig4_linear_rises_then_stays": (change_by_octaves, 0.1, -0.1),
    "scaling_sums_pair_term": (sums(pairs=lambda power: [1.0, 4.0**power]), 2.0, 1.0),
    "scaling_sums_activations_overlap": (sums(cosines=lambda c: [[0.9, c]] * 2), 0.5, -0.5),
    "scaling_sums_overlap_does_not_depend_on_loops": (
        sums(cosines=lambda ratio: [[0.4, 0.1], [0.4 * ratio, 0.1]]),
        *(1.0, 2.0),
    ),
    "scaling_lemma4_lower_bound": (sums(lower=lambda ratio: [2.0, ratio]), 1.5, 0.5),
    "scaling_lemma4_upper_bound": (sums(upper=lambda ratio: [0.5, ratio]), 0.9, 1.5),
    "scaling_sums_looped_pairs_carry_the_sum": (sums(share=lambda share: share), 0.9, 0.2),
    "scaling_theorem3_variance_by_loops": (
        sums(sum=lambda power: [[1.0, 16.0], [1.0, 4.0**power]]),
        *(2.0, 1.0),
    ),
    "scaling_theorem3_variance_by_layers": (
        sums(sum=lambda power: [[1.0, 1.0], [4.0, 4.0**power]]),
        *(1.0, 2.0),
    ),
    "scaling_theorem3_redrawn_layer_moves_others_little": (redrawn("moved"), 1.0, 1.7),
    "scaling_theorem3_branch_has_a_small_mean": (redrawn("alike"), 0.02, 0.5),
    "scaling_fig6_training_lowers_agreement": (less_alike, 0.7, 1.3),
    "counts_looped_parameters": (counted("backbone", "looped", "standard"), 0.0834, 0.25),
    "counts_step_grows_with_loops": (counted("step", "b = 40", "looped"), 1.4, 1.0),
    "counts_residual_scaling_rate": (
        counted("rate", "U = 48, R = 8", "U = 12, R = 2"),
        *(0.5, 1.0),
    ),
    "counts_FLT_adds_no_parameters": (
        counted("parameters", "FLT, K = 9", "LT, K = 9", "LT, K = 3"),
        *(1.0, 1.1),
    ),
    "counts_new_blocks_add_nothing": (moved, 0.0, 0.5),
    "fully_looped_LT_norm_rises_in_training": (standing, 1.5, 0.9),
    "fully_looped_LT_mlp_gradient_swings": (
        in_training("mlp_gradient_swing", over="FLT"),
        *(1.5, 0.7),
    ),
    "language_FLT_stops_gaining": (loops_of("FLT"), 1.05, 0.95),
    "language_FLT_gains_with_width": (wide, 0.95, 1.05),
    "language_FLT_sharing_is_cheap": (shared_cache, 1.0, 1.1),
    "language_LT_worsens": (loops_of("LT"), 1.2, 0.8),
    "language_LT_worsens_at_each_step": (last_step, 1.1, 0.9),
    "language_FLT_below_LT": (loops_of("FLT", "LT"), 0.8, 1.2),
    "language_LT_residual_grows": (loops_of("LT"), 2.0, 0.5),
    "language_scaling_linear_rate_stays": (best_rate_moves, -0.1, -3.0),
    "language_window_keeps": (useful({4: beyond}), 1.0, 1.2),
    "language_all_loops_are_reached_sooner": (useful({1: until(0), 12: until(1)}), 0.5, 1.5),
    "language_depth_loops_pay": (depth("three layers"), 0.95, 1.05),
    "language_depth_loops_pay_for_their_flops": (depth("three plain layers, as"), 1.05, 0.95),
    "language_depth_sharing_costs": (depth("six"), 0.95, 1.05),
    "language_depth_drawn_loops_cost_little": (depth("the same"), 1.0, 1.05),
    "language_depth_drawn_loops_need_fewer": (depth("the same", loop=2), 0.95, 1.05),
    "language_depth_fixed_loops_end": (depth("three layers", loop=16), 1.05, 1.0),
    "language_depth_drawn_loops_keep": (depth("the same", loop=16), 1.0, 1.05),
    "language_depth_drawn_loops_go_further": (depth("the same", loop=8), 0.95, 1.05),
    "language_FLT_latent_keeps": (of_experiment("language_fully_looped_table2", latent), 1.0, 1.1),
    "language_FLT_trained_loops_help": (
        of_flt(lambda loops, value: np.where(loops < 12, 1.0, value)),
        *(0.95, 1.05),
    ),
    "language_FLT_wavers_beyond": (of_flt(waver), 2.0, 0.5),
    "language_iso_depth_sharing_costs": (shared, 1.05, 0.9),
    "language_iso_depth_recurrence_is_worth_something": (iso_flop(), 0.5, -0.5),
    "language_iso_depth_lanes_are_worth_more": (iso_flop("lanes"), 0.5, -0.5),
    "language_iso_depth_sharing_costs_at_vertices": (shared, 1.05, 0.9),
    "language_iso_depth_truncated_gradients_lower_the_loss": (
        lower_loss("gradients of half the loops"),
        *(0.9, 1.1),
    ),
    "language_iso_depth_lanes_lower_the_loss": (lower_loss("lanes"), 0.9, 1.1),
    "language_iso_depth_phi_tells_apart": (told_apart, 0.5, -0.5),
    "few_prompts_looped_needs_fewer": (turning({2: 100, 3: 400}), 0.6, 1.7),
    "few_prompts_looped_needs_fewer_at_fewest_dimensions": (turning({2: 100, 3: 9}), 0.6, 1.7),
    "few_prompts_looped_needs_fewer_at_most_dimensions": (turning({2: 9, 3: 400}), 0.6, 1.7),
    "few_prompts_error_grows_with_layers": (of_experiment("few_prompts", by_depth), 1.5, 0.7),
    "few_prompts_one_layer_is_like_looped": (of_experiment("few_prompts", one_layer), 1.0, 1.5),
    "one_recipe_serves_all_classes": (of_experiment("one_recipe", one_recipe), 1.0, 1.5),
    "first_loops_are_harder": (of_experiment("first_loops", over_the_window), 1.5, 0.7),
    "probe_rates_thousandth_is_best": (probed_at, 0.8, 1.2),
    "lasso_penalty_hundredth_is_best": (penalised, 0.9, 1.1),
    "stopping_drawn_loops_level_the_error": (of_experiment("stopping", drawn_loops), 0.3, 3.0),
}
