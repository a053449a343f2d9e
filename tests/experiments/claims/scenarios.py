"""For the claims that no frozen evidence decides (tests/golden/claims.py has the others'), evidence
that each holds on, and evidence made to contradict it."""

from collections.abc import Mapping

import numpy as np

from looplab.experiments.claims import Evidence, Measured
from looplab.experiments.definition import load, members_of

from .of_runs import raced
from .of_texts import iso_flop, loops_of, rates, shared, useful
from .synthetic import Made


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
    "stopping_drawn_loops_level_the_error": (drawn_loops, 0.3, 3.0),
    "race_fast_is_sooner": (raced("ratio"), 2.0, 0.5),
    "race_fast_ends_under_the_target": (raced("error"), 0.6, 1.5),
}
