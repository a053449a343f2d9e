"""For a claim of each kind evidence that it holds on, and evidence made to contradict it."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from looplab.experiments.claims import Evidence, Measured
from looplab.experiments.definition import load, members_of

from .of_commands import (
    law,
    norms,
    of_many,
    probed,
    sweep,
    tables,
    verdict,
)
from .of_runs import diverse, groups, raced, reads, shifted_optimizers
from .of_texts import iso_flop, loops_of, rates, shared, useful
from .synthetic import DIMS, Made, evidence, seeds


def _pair(task: str = "linear", **settings: Any) -> Made:
    """Looped over standard."""
    return lambda ratio: evidence(
        seeds(level=0.1 * ratio, task=task, **settings),
        seeds(family="standard", level=0.1, task=task, **settings),
    )


def _beside(task: str, *solvers: str) -> Made:
    """Looped over solvers."""
    return lambda ratio: evidence(
        seeds(level=0.1 * ratio, task=task, solvers=dict.fromkeys(solvers, 0.1))
    )


def _shift(name: str) -> Made:
    return lambda ratio: evidence(
        seeds(shifted={name: 0.1 * ratio}), seeds(family="standard", shifted={name: 0.1})
    )


def _growth(family: str = "looped", **settings: Any) -> Made:
    return lambda ratio: evidence(seeds(family=family, grows=ratio, **settings))


def _two(made: Callable[[float], dict[str, Any]], other: dict[str, Any], **both: Any) -> Made:
    """Two groups of runs: one made of the value, and another."""
    return lambda value: evidence(seeds(**both, **made(value)), seeds(**both, **other))


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


# The claim, the evidence by the value of its quantity, a value that it holds at, one it fails at.
SCENARIOS: Mapping[str, tuple[Made, float, float]] = {
    "fig02_matches_standard": (_pair(), 1.0, 2.0),
    "fig02_near_least_squares": (
        lambda x: evidence(seeds(level=0.1 + x, solvers={"least_squares": 0.1})), 0.001, 0.1
    ),
    "fig02_stays_beyond_b": (_growth(), 1.1, 4.0),
    "fig03_injection_decides": (
        lambda x: evidence(seeds(family="tied", grows=x), seeds(grows=2.0)), 5.0, 1.0
    ),
    "fig04_large_T_stays": (
        _two(lambda x: {"T": 6, "grows": x}, {"T": 2, "grows": 3.0}), 1.0, 3.0
    ),
    "fig10_sparse_below_least_squares": (_beside("sparse_linear", "least_squares"), 0.3, 2.0),
    "fig10_tree_below_solvers": (
        _beside("decision_tree", "nearest_neighbours", "greedy_tree_2"), 0.5, 2.0
    ),
    "fig06_noise": (_shift("noise"), 0.9, 2.0),
    "fig08_looped_gradient": (probed, 0.8, 1.3),
    "table2_looped_no_worse": (tables, 0.05, -0.05),
    "scaling_fig2_sqrt_grows": (norms, 3.0, 1.0),
    "scaling_fig5_linear_gains": (
        sweep(lambda x: {"gain": {"sqrt": {"16": verdict(x)}}}), 0.1, -0.1
    ),
    "scaling_fig5_linear_rate_stays": (
        sweep(lambda x: {"move": {"linear": verdict(x)}}), -0.1, -3.0
    ),
    "fully_looped_LT_worsens": (of_many("LT"), 2.0, 0.5),
    "fully_looped_LT_worse_than_one_loop": (of_many("LT"), 2.0, 0.5),
    "fully_looped_FLT_below_LT": (of_many("FLT"), 0.5, 2.0),
    "iso_depth_recurrence_is_worth_something": (law, 0.5, -0.5),
    "iso_depth_sharing_costs": (lambda x: law(cost=x), 1.5, 0.5),
    "loop_makes_newton_steps": (
        reads(groups("iterates", family="looped", b=8, methods={"newton": {"per_loop": ...}})),
        2.0, 0.5,
    ),
    "linear_attention_learns_inverse_covariance": (
        reads(
            groups("preconditioner", b=8, spread=...),
            injection="linear_attention", n_embd=DIMS, n_head=1,
        ),
        1.5, 5.0,
    ),
    "looped_error_falls_with_every_loop": (
        reads(groups("conditioning", family="looped", b=8, rise=...)), 1.0, 1.5
    ),
    "few_functions_are_memorised": (diverse, 0.9, 0.1),
    "looped_needs_no_more_functions": (diverse, 0.8, 1.5),
    "mixture_is_told_apart": (
        reads(groups("mixture", family="looped", worst=..., over_alone={}), task="mixture"),
        1.1, 1.5,
    ),
    "attention_rises_on_the_plateau": (
        reads(groups("plateau", optimizer="adam", attention_done=...)), 0.5, 0.05
    ),
    "muon_suffers_more_from_shifts": (shifted_optimizers, 1.5, 0.7),
    "length_rotary_keeps_its_error": (
        reads(groups("length", family="looped", block="llama", growth={"2": ...}), block="llama"),
        0.9, 1.5,
    ),
    "halting_beats_a_fixed_number": (
        reads(groups("halting", task="linear", measured_over_fixed=...)), 0.7, 1.2
    ),
    "language_LT_worsens": (loops_of("LT"), 1.2, 0.8),
    "language_FLT_below_LT": (loops_of("FLT", "LT"), 0.8, 1.2),
    "language_LT_residual_grows": (loops_of("LT"), 2.0, 0.5),
    "language_scaling_linear_gains": (rates("gain", "sqrt"), 0.1, -0.1),
    "language_scaling_linear_rate_stays": (rates("move", "linear"), -0.1, -3.0),
    "language_last_loop_keeps": (useful("last", "beyond"), 1.0, 1.2),
    "language_all_loops_are_reached_sooner": (useful("both", "all_over_last"), 0.5, 1.5),
    "language_iso_depth_sharing_costs": (shared, 1.05, 0.9),
    "language_iso_depth_recurrence_is_worth_something": (iso_flop(), 0.5, -0.5),
    "language_iso_depth_lanes_are_worth_more": (iso_flop("lanes"), 0.5, -0.5),
    "jacobian_penalty_settles_the_loop": (
        _two(lambda x: {"penalty": 0.1, "grows": 4 * x}, {"grows": 4}), 0.3, 2.0
    ),
    "stopping_drawn_loops_level_the_error": (drawn_loops, 0.3, 3.0),
    "race_fast_is_sooner": (raced("ratio"), 2.0, 0.5),
    "race_fast_ends_under_the_target": (raced("error"), 0.6, 1.5),
}  # fmt: skip
