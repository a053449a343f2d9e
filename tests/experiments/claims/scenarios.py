"""For the claims that no frozen evidence decides (tests/golden/claims.py has the others'), evidence
that each holds on, and evidence made to contradict it."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from looplab.experiments.claims import Evidence, Measured
from looplab.experiments.definition import load, members_of

from .of_runs import raced
from .of_texts import depth, inference, iso_flop, loops_of, rates, shared, useful
from .synthetic import DIMS, Made, evidence, seeds


def drawn_loops(ratio: float) -> Evidence:
    """Errors that rise linearly beyond b loops, with variances over loops b to 3 b that are `ratio`
    times as large where the loops of training were drawn."""
    runs = []
    for member in members_of(load("stopping"), "small"):
        config = member.config
        far = np.clip(np.arange(18) - 5, 0, None) * (1 + 0.01 * config.seed) / 100
        far = far * (1.0 if config.loops.sampling == "none" else ratio**0.5)
        arrays = {"by_loop": 0.1 + np.tile(far, (8, 1)), "model_at_b": np.full((8, 7), 0.1)}
        runs.append(Measured(member.label, config, config.training.steps, arrays))
    return Evidence(runs)


def by_layers(name: str, columns: slice | int, shallow: bool = False) -> Made:
    """A looped model and standard ones of 3 and 12 layers, of which the looped one, or else the
    shallow one, has errors `ratio` times as large in these columns of an array."""

    def made(ratio: float) -> Evidence:
        changed = ("standard", 3) if shallow else ("looped", 1)
        runs = []
        for member in (*seeds(), *seeds(family="standard", n_layer=3), *seeds(family="standard")):
            errors = member.arrays["model_at_b"].copy()
            if (member.config.model.family, member.config.model.n_layer) == changed:
                errors[:, columns] *= ratio
            runs.append(replace(member, arrays={**member.arrays, name: errors}))
        return Evidence(runs)

    return made


def one_rate(ratio: float) -> Evidence:
    """Errors by rate of three depths, of which the deepest errs `ratio` times as much at the rate
    that is best for the others as at the rate that is best for itself."""
    runs = []
    for layers in (1, 2, 4):
        levels = {1e-3: 0.2 * ratio, 2e-3: 0.1 * ratio, 4e-3: 0.2 * ratio}
        if layers == 4:
            levels = {1e-3: 0.1, 2e-3: 0.1 * ratio, 4e-3: 0.2 * ratio}
        for rate, level in levels.items():
            found = seeds(level=level, n_layer=layers, residual_scaling="factored")
            for each in found:
                training = replace(each.config.training, learning_rate=rate)
                runs.append(replace(each, config=replace(each.config, training=training)))
    return Evidence(runs)


def highest_rates(ratio: float) -> Evidence:
    """Two seeds of three depths that learn at every rate but the highest, the deepest only up to
    the lowest of those that are `ratio` apart."""
    rates = sorted({1e-3, 1e-3 * ratio, 1e-2})
    runs = []
    for layers, rate in product((1, 2, 4), rates):
        dead = rate == rates[-1] or (layers == 4 and rate > rates[0])
        for each in seeds(
            2, level=1.0 if dead else 0.1, n_layer=layers, residual_scaling="factored"
        ):
            training = replace(each.config.training, learning_rate=rate)
            runs.append(replace(each, config=replace(each.config, training=training)))
    return Evidence(runs)


def two_norms(above: tuple[str, str], below: tuple[str, str]) -> Made:
    """Blocks by the place of their norm and their scaling, of which the first have errors `ratio`
    times as large."""

    def made(ratio: float) -> Evidence:
        parts = [
            seeds(level=level, block_norm=norm, residual_scaling=scaling)
            for (norm, scaling), level in ((above, 0.1 * ratio), (below, 0.1))
        ]
        return evidence(*parts)

    return made


def exploding(name: str) -> Made:
    """Three seeds whose largest gradient is `value` times the median, that of a small window
    once."""

    def made(value: float) -> Evidence:
        largest = {"T = 5": [1.0, 1.0, 1.0], name: [value * f for f in (0.95, 1.0, 1.05)]}
        return evidence(instability={"largest": largest, "steps": 250, "dims": 3})

    return made


def halted(kind: str) -> Made:
    """The ratio of mean loops, trained halting over measured."""

    def made(ratio: float) -> Evidence:
        estimate = {
            "mean": ratio,
            "low": 0.99 * ratio,
            "high": 1.01 * ratio,
            "seeds": 3,
            "note": "",
        }
        group = {"task": "linear", f"{kind}_over_measured": estimate}
        return evidence(seeds(), halting={"groups": [group]})

    return made


def growing(variant: str, name: str) -> Made:
    """A quantity of three seeds at the most loops, `ratio` times that at the fewest."""

    def made(ratio: float) -> Evidence:
        cells = {
            K: {name: [f * n for f in (1.0, 1.01, 1.02)]} for K, n in (("2", 1.0), ("4", ratio))
        }
        cells["4"][name][0] *= 1.01  # so that a ratio has a spread
        result = {"loops": [2, 4], "variants": {variant: cells}}
        return evidence(seeds(connectivity=variant), fully_looped=result)

    return made


def last_increment(value: float) -> Evidence:
    """Two trained runs whose last increment has a cosine with the others that is higher by
    `value`."""
    runs = []
    for loops, shift in ((4, 0.01), (8, -0.01)):
        cosine = np.full((loops, loops), 0.4)
        cosine[-1] = cosine[:, -1] = 0.4 + value + shift
        about = {"what": f"R = {loops}", "unfinished": [], "step": 600, "scaling": "linear"}
        runs.append({**about, "loops": loops, "cosine": cosine.tolist()})
    return evidence(residual_scaling={"runs": runs})


def one_size(ratio: float) -> Evidence:
    """Two trained runs, of which the branches of the last loop are `ratio` times as large."""
    runs = []
    for loops, factor in ((4, 0.99), (8, 1.01)):
        branch = [*[1.0] * (loops - 1), ratio * factor]
        about = {"what": f"R = {loops}", "unfinished": [], "step": 400, "scaling": "factored"}
        runs.append({**about, "loops": loops, "branch": branch})
    return evidence(residual_scaling={"runs": runs})


def updated(over: str) -> Made:
    """Changes of two seeds at a rate of 1/√U; those of the most layers, or loops, are `ratio` times
    as large."""

    def made(ratio: float) -> Evidence:
        factors = {"layers": [[1.0, 1.0], [ratio, ratio]], "loops": [[1.0, ratio]] * 2}[over]
        same = {
            str(U): {"by_seed": [[U**0.5 * f * n for f in row] for n in (1.0, 1.01)]}
            for U, row in zip((1, 4), factors, strict=True)
        }
        for row in same["4"]["by_seed"][:1]:
            row[-1] *= 1.01  # so that a ratio has a spread
        return evidence(residual_scaling={"same_signs": same, "width": 8})

    return made


def damped(ratio: float) -> Evidence:
    """The norms of two seeds with few and with many loops, after ten steps."""
    by_seed = [[[1.0], [ratio * factor]] for factor in (0.99, 1.01)]
    norm = {"non_shared": {"linear": {"by_seed": by_seed}}}
    init = {"layers": 1, "width": 64}
    return evidence(residual_scaling={"norm": norm, "init": init, "steps": 10})


def connected(variant: str, over: str) -> Made:
    """Final errors of two connectivities at two numbers of loops, three seeds each."""

    def made(ratio: float) -> Evidence:
        def cells(level: float) -> dict[str, dict[str, list[float]]]:
            errors = [level * factor for factor in (0.99, 1.0, 1.01)]
            return {K: {"error": errors, "initial": [1.0] * 3} for K in ("2", "4")}

        variants = {"LT": cells(0.1), over: cells(0.1), variant: cells(0.1 * ratio)}
        about = {"loops": [2, 4], "plain": [0.1] * 3, "left_below": 0.7, "steps": 800}
        noise = [0.099, 0.1, 0.1005]  # so that a ratio has a spread
        variants[over]["4"]["error"] = noise
        return evidence(fully_looped={**about, "variants": variants})

    return made


def attentions(kind: str) -> Made:
    """Models of two kinds of attention, of which one has errors `ratio` times as large."""

    def made(ratio: float) -> Evidence:
        full = seeds(connectivity="FLT", attention="full")
        other = seeds(level=0.1 * ratio, connectivity="FLT", attention=kind)
        return evidence(full, other)

    return made


def beyond_drawn(ratio: float) -> Evidence:
    """Fixed and drawn numbers of loops, of which the latter have errors `ratio` times as large."""
    fixed = seeds(connectivity="FLT")
    drawn = [
        replace(
            each,
            config=replace(each.config, loops=replace(each.config.loops, sampling="uniform")),
            arrays={name: ratio * values for name, values in each.arrays.items()},
        )
        for each in fixed
    ]
    return evidence(fixed, drawn)


def by_loops(changed: int) -> Made:
    """Looped models of 6, 12 and 16 loops, of which one has errors `ratio` times as large."""

    def made(ratio: float) -> Evidence:
        levels = {b: 0.1 * (ratio if b == changed else 1) for b in (6, 12, 16)}
        return evidence(*(seeds(level=level, b=b) for b, level in levels.items()))

    return made


def two_windows(ratio: float) -> Evidence:
    """Models of two T, of which the smaller has errors `ratio` times as large."""
    return evidence(seeds(level=0.1 * ratio, T=2), seeds(T=4))


def heads(ratio: float) -> Evidence:
    """Models of 1, 4 and 8 heads, of which the last has errors `ratio` times as large."""
    levels = {1: 0.1, 4: 0.1, 8: 0.1 * ratio}
    return evidence(*(seeds(level=level, n_head=n) for n, level in levels.items()))


def beyond(loops: Any, value: float) -> Any:
    """Ones up to 12 loops, then the value."""
    return np.where(loops > 12, value, 1.0)


def until(first: float, power: int = 0) -> Any:
    """Two before a loop, `first` times a power of the value; then one."""
    return lambda loops, value: np.where(loops < first * value**power, 2.0, 1.0)


def converging(ratio: float) -> Evidence:
    """Blocks of one and of two layers, whose errors fall to their last value at loop 4, and at
    `ratio` times that."""
    found = [*seeds(n_layer=1), *seeds(n_layer=2)]
    for member in found:
        fall = round(4 * (ratio if member.config.model.n_layer == 2 else 1))
        member.arrays["by_loop"][:, : fall - 1] *= 10
    return Evidence(found)


# The claim, the evidence by the value of its quantity, a value that it holds at, one it fails at.
SCENARIOS: Mapping[str, tuple[Made, float, float]] = {
    "scaling_fig5_one_rate_serves_all": (one_rate, 1.02, 1.5),
    "scaling_fig5_one_rate_is_the_highest": (highest_rates, 1.5, 4.0),
    "deeploop_like_pre_norm": (two_norms(("post", "deeploop"), ("pre", "linear")), 1.0, 1.4),
    "post_norm_needs_factors": (two_norms(("post", "none"), ("post", "deeploop")), 1.4, 0.8),
    "instability_whole_window_explodes": (exploding("T = 20"), 100.0, 2.0),
    "instability_clipping_cures": (exploding("clipping"), 5.0, 1000.0),
    "act_beats_measured_halting": (halted("act"), 0.8, 1.2),
    "ponder_beats_measured_halting": (halted("ponder"), 0.8, 1.2),
    "fully_looped_LT_ai_worsens": (growing("LT_ai", "error"), 1.2, 0.8),
    "fully_looped_FLT_res_swings": (growing("FLT_res", "swing"), 1.2, 0.8),
    "scaling_fig6_last_increment_agrees_less": (last_increment, -0.3, 0.3),
    "scaling_fig2_deep_linear_is_damped": (damped, 0.8, 1.2),
    "scaling_theorem3_branches_stay": (one_size, 1.1, 3.0),
    "scaling_proposition7_layers": (updated("layers"), 1.1, 1.6),
    "scaling_proposition7_loops": (updated("loops"), 1.1, 1.6),
    "fully_looped_LT_ai_like_LT_i": (connected("LT_ai", "LT_i"), 1.0, 1.4),
    "fully_looped_FLT_res_above_FLT": (connected("FLT_res", "FLT"), 1.2, 0.8),
    "fully_looped_grouped_keeps": (attentions("grouped"), 1.0, 1.4),
    "fully_looped_latent_keeps": (attentions("latent"), 1.0, 1.4),
    "fully_looped_sliding_keeps": (attentions("sliding"), 1.0, 1.4),
    "fully_looped_drawn_loops_go_further": (beyond_drawn, 0.7, 1.4),
    "fig04_small_T_is_worse": (two_windows, 1.5, 0.7),
    "fig04_few_loops_fall_short": (by_loops(6), 1.5, 0.7),
    "fig04_enough_loops_are_alike": (by_loops(16), 1.0, 0.5),
    "fig07_deeper_blocks_converge_sooner": (converging, 0.5, 1.5),
    "fig07_narrow_heads_are_worse": (heads, 1.5, 0.7),
    "fig15_noise_peak_looped": (by_layers("noise/model_at_b", DIMS), 0.7, 1.5),
    "fig15_noise_peak_shallow": (by_layers("noise/model_at_b", DIMS, shallow=True), 0.7, 1.5),
    "fig16_scaled_x_2_like_shallow": (by_layers("scaled_x_2/model_at_b", slice(None)), 0.8, 1.5),
    "language_LT_worsens": (loops_of("LT"), 1.2, 0.8),
    "language_FLT_below_LT": (loops_of("FLT", "LT"), 0.8, 1.2),
    "language_LT_residual_grows": (loops_of("LT"), 2.0, 0.5),
    "language_scaling_linear_gains": (rates("gain", "sqrt"), 0.1, -0.1),
    "language_scaling_linear_rate_stays": (rates("move", "linear"), -0.1, -3.0),
    "language_last_loop_keeps": (useful({1: beyond}), 1.0, 1.2),
    "language_window_keeps": (useful({4: beyond}), 1.0, 1.2),
    "language_all_loops_are_reached_sooner": (useful({1: until(8), 12: until(8, 1)}), 0.5, 1.5),
    "language_depth_loops_pay": (depth("three layers"), 0.95, 1.05),
    "language_depth_loops_pay_for_their_flops": (depth("three plain layers, as"), 1.05, 0.95),
    "language_depth_sharing_costs": (depth("six"), 0.95, 1.05),
    "language_depth_drawn_loops_cost_little": (depth("the same"), 1.0, 1.05),
    "language_depth_drawn_loops_need_fewer": (depth("the same", loop=2), 0.95, 1.05),
    "language_depth_fixed_loops_end": (depth("three layers", loop=16), 1.05, 1.0),
    "language_depth_drawn_loops_keep": (depth("the same", loop=16), 1.0, 1.05),
    "language_depth_drawn_loops_go_further": (depth("the same", loop=8), 0.95, 1.05),
    "inference_sharing_is_cheap": (inference, 1.001, 1.05),
    "language_iso_depth_sharing_costs": (shared, 1.05, 0.9),
    "language_iso_depth_recurrence_is_worth_something": (iso_flop(), 0.5, -0.5),
    "language_iso_depth_lanes_are_worth_more": (iso_flop("lanes"), 0.5, -0.5),
    "stopping_drawn_loops_level_the_error": (drawn_loops, 0.3, 3.0),
    "race_fast_is_sooner": (raced("ratio"), 2.0, 0.5),
    "race_fast_ends_under_the_target": (raced("error"), 0.6, 1.5),
}
