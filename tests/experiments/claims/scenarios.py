"""For each claim evidence that it holds on, and evidence made to contradict it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from reloop.experiments.claims.claim import Evidence

from .of_runs import conditioned, diverse, iterates, mixed, preconditioned
from .synthetic import Made, evidence, seeds


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


def _probed(family: str, target: str) -> Made:
    def made(ratio: float) -> Evidence:
        mean = np.interp(range(9), (0, 4, 8), (1.0, 0.4, 0.4 * ratio))
        ends = {"mean": mean, "low": mean * 0.99, "high": mean * 1.01}
        band = {name: values.tolist() for name, values in ends.items()}
        probing = {"b": 8, "targets": {target: {"error": band}}}
        return evidence(
            seeds(family=family, n_layer=8 if family == "standard" else 1),
            probing={family: [probing] * 3},
        )

    return made


def _tables(difference: float) -> Evidence:
    accuracy: dict[str, Any] = {"mean": 0.7, "low": 0.69, "high": 0.71}
    entries = []
    for table in range(4):
        models: dict[str, Any] = {
            family: {
                "runs": [{"step": 100, "remarks": []}],
                "accuracy": {**accuracy, "mean": 0.7 + shift + 0.001 * table},
            }
            for family, shift in (("looped", difference), ("standard", 0.0))
        }
        entries.append({"label": f"table {table}", "models": models})
    return evidence(openml={"tables": entries})


def _stability(figure: str, **result: Any) -> Evidence:
    init = {"name": "weak", "layers": 4, "width": 64}
    return evidence(stability={figure: {"init": init, "steps": 10, **result}})


def _curve(values: Any) -> dict[str, Any]:
    """Values over loops or steps for three seeds that differ little."""
    return {"by_seed": [(np.array(values) * (1 + 0.01 * seed)).tolist() for seed in range(3)]}


def _norms(sharing: str, scaling: str) -> Made:
    return lambda ratio: _stability(
        "norms", norm={sharing: {scaling: _curve([[1.0, 1.0], [ratio, ratio]])}}
    )


def _cosines(sharing: str) -> Made:
    return lambda cosine: _stability("cosines", apart={sharing: _curve(cosine)})


def _slopes(none: Callable[[float], float], sqrt: Callable[[float], float]) -> Made:
    """The slope of linear is the value, or 0 where that of another is made of it."""

    def made(value: float) -> Evidence:
        slopes = {"none": none(value), "sqrt": sqrt(value), "linear": value}
        curves = {name: _curve([slope] * 10) for name, slope in slopes.items()}
        return _stability("changes", slope={"raw": curves})

    return made


def _sweep(entry: Callable[[float], dict[str, Any]]) -> Made:
    best = {"2": {"error": 0.3}, "16": {"error": 0.3}}
    return lambda value: _stability(
        "sweep", loops=[2, 16], initial=1.0, best={"sqrt": best, "linear": best}, **entry(value)
    )


def _verdict(value: float) -> dict[str, Any]:
    return {"verdict": "gain", "by_seed": [value, 0.99 * value, 1.01 * value]}


def _trained(value: float, cosine: bool) -> Evidence:
    runs = [
        {
            "what": "looped", "unfinished": [], "scaling": "linear", "step": 100, "loops": loops,
            "apart": value * (1 + 0.01 * loops) if cosine else 0.5,
            "norm": {"mean": [1.0, 1.0 if cosine else end], "standard_error": [0.01, 0.01]},
        }
        for loops, end in ((2, 1.0), (4, value))
    ]  # fmt: skip
    return _stability("trained", runs=runs)


def _variants(level: Callable[[str, int], float], plain: float = 0.5) -> Evidence:
    def cell(name: str, loops: int) -> dict[str, Any]:
        return {"error": _curve(level(name, loops))["by_seed"], "initial": [1.0] * 3}

    names = ("LT", "LT_i", "FLT")
    cells = {name: {str(loops): cell(name, loops) for loops in (4, 16)} for name in names}
    errors = _curve(plain)["by_seed"]
    return _stability("variants", loops=[4, 16], variants=cells, plain=errors, left_below=0.7)


def _of_many(*names: str) -> Made:
    """The named variants' error at the most loops is `value` times .4, all other errors .4."""
    return lambda value: _variants(
        lambda name, loops: 0.4 * value if name in names and loops == 16 else 0.4
    )


def _law(phi: float = 0.5, cost: float = 1.0) -> Evidence:
    losses = [
        {"r": r, "width": width, "steps": 100, "loss": 0.2 + 0.1 * (cost if r == 4 else 1) + noise}
        for r in (1, 4)
        for width, noise in ((8, 0.001), (16, 0.002), (24, 0.0))
    ]
    settings = {"r": [1, 4], "steps": [100, 200], "depth": 8, "dims": 3}
    ends = {"value": phi, "low": phi - 0.1, "high": phi + 0.1}
    return evidence(
        iso_depth={"phi": ends, "not_determined": [], "losses": losses, "bayes": 0.2,
                   "settings": settings, "fitted": 6}
    )  # fmt: skip


def _two(made: Callable[[float], dict[str, Any]], other: dict[str, Any], **both: Any) -> Made:
    """Two groups of runs: one made of the value, and another."""
    return lambda value: evidence(seeds(**both, **made(value)), seeds(**both, **other))


def _level(value: float) -> dict[str, Any]:
    return {"level": 0.1 * value}


# The claim, the evidence by the value of its quantity, a value that it holds at, one it fails at.
SCENARIOS: Mapping[str, tuple[Made, float, float]] = {
    "fig02_matches_standard": (_pair(), 1.0, 2.0),
    "fig02_last_query": (_pair(), 1.5, 3.0),
    "fig02_near_least_squares": (
        lambda x: evidence(seeds(level=0.1 + x, solvers={"least_squares": 0.1})), 0.001, 0.1
    ),
    "fig02_stays_beyond_b": (_growth(), 1.1, 4.0),
    "fig03_tied_grows": (_growth("tied"), 5.0, 1.0),
    "fig03_injected_stays": (_growth(), 1.0, 4.0),
    "fig03_injection_decides": (
        lambda x: evidence(seeds(family="tied", grows=x), seeds(grows=2.0)), 5.0, 1.0
    ),
    "fig04_large_T_stays": (
        _two(lambda x: {"T": 6, "grows": x}, {"T": 2, "grows": 3.0}), 1.0, 3.0
    ),
    "fig04_small_T_grows": (_two(lambda x: {"T": 2, "grows": x}, {"T": 6, "grows": 2}), 4.0, 1.0),
    "fig05_few_prompts": (_pair(distinct_prompts=64), 0.5, 2.0),
    "fig07_one_layer_is_enough": (_two(_level, {"n_layer": 4}), 1.0, 2.0),
    "fig07_width_helps": (
        _two(lambda x: {**_level(x), "n_embd": 64}, {"n_embd": 32}), 0.5, 2.0
    ),
    "fig07_width_saturates": (
        lambda x: evidence(
            seeds(level=0.1 * x, n_embd=128), seeds(n_embd=64), seeds(level=0.3, n_embd=32)
        ),
        1.0,
        0.3,
    ),
    "fig09_more_loops_help": (_two(lambda x: {**_level(x), "b": 12}, {"b": 6}), 0.5, 2.0),
    "fig09_flattens": (
        lambda x: evidence(seeds(b=12, before=1 / x), seeds(b=6)), 1.0, 0.3
    ),
    "fig10_sparse_below_least_squares": (_beside("sparse_linear", "least_squares"), 0.3, 2.0),
    "fig10_sparse_near_lasso": (_beside("sparse_linear", "lasso"), 1.0, 3.0),
    "fig10_sparse_below_standard": (_pair("sparse_linear"), 0.5, 1.5),
    "fig10_tree_matches_standard": (_pair("decision_tree"), 1.0, 2.0),
    "fig10_relu_matches_standard": (_pair("relu_network"), 1.0, 2.0),
    "fig10_tree_below_solvers": (
        _beside("decision_tree", "nearest_neighbours", "greedy_tree_2"), 0.5, 2.0
    ),
    "fig10_tree_below_tree_of_signs": (_beside("decision_tree", "greedy_tree_4_signs"), 0.5, 2.0),
    "fig10_tree_below_boosted_trees": (_beside("decision_tree", "boosted_trees"), 0.5, 2.0),
    "fig10_relu_below_solvers": (_beside("relu_network", "least_squares"), 0.5, 2.0),
    "fig11_below_standard_at_every_sparsity": (
        lambda x: Evidence([
            *_pair("sparse_linear", sparsity=1)(x).members,
            *_pair("sparse_linear", sparsity=3)(0.5).members,
        ]),
        0.7,
        1.5,
    ),
    "fig17_schedule_is_no_worse": (_two(_level, {"start": 8}), 1.0, 2.0),
    **{
        f"fig{figure}_{shift}": (_shift(shift), 0.9, 2.0)
        for figure, shifts in {
            "06": ("skewed_covariance", "noise", "scaled_x_3"),
            "15": ("half_subspace", "orthogonal_query", "repeated_query", "random_orthants"),
            "16": ("scaled_x_2", "scaled_w_2", "scaled_w_3"),
        }.items()
        for shift in shifts
    },
    **{
        f"fig08_{family}_{target}": (_probed(family, target), *values)
        for family, values in (("looped", (0.8, 1.3)), ("standard", (1.4, 0.9)))
        for target in ("gradient", "least_squares")
    },
    "table2_looped_no_worse": (_tables, 0.05, -0.05),
    "scaling_fig2_none_grows": (_norms("looped", "none"), 20.0, 1.0),
    "scaling_fig2_sqrt_grows": (_norms("looped", "sqrt"), 3.0, 1.0),
    "scaling_fig2_linear_is_flat": (_norms("looped", "linear"), 1.0, 3.0),
    "scaling_fig2_deep_sqrt_is_flat": (_norms("non_shared", "sqrt"), 1.0, 3.0),
    "scaling_fig3_looped_increments_agree": (_cosines("looped"), 0.7, 0.05),
    "scaling_fig3_deep_increments_do_not": (_cosines("non_shared"), 0.01, 0.6),
    **{
        f"scaling_fig{figure}_{name}": (_slopes(*slopes), *values)
        for figure in (4, 9)
        for name, slopes, values in (
            ("none_moves_more", (lambda x: 0.5 + x, lambda x: 0.5), (0.5, 0.0)),
            ("sqrt_moves_more", (lambda x: 1.0, lambda x: 0.5), (0.0, 0.5)),
            ("linear_is_flat", (lambda x: 1.0, lambda x: 0.5), (0.01, 0.9)),
        )
    },
    "scaling_fig5_linear_gains": (_sweep(lambda x: {"gain": {"16": _verdict(x)}}), 0.1, -0.1),
    "scaling_fig5_linear_rate_stays": (
        _sweep(lambda x: {"move": {"linear": _verdict(x)}}), -0.1, -3.0
    ),
    "scaling_fig5_sqrt_rate_falls": (_sweep(lambda x: {"move": {"sqrt": _verdict(x)}}), -2.0, 0.1),
    "scaling_fig6_trained_increments_agree": (lambda x: _trained(x, cosine=True), 0.5, 0.01),
    "scaling_fig7_norm_does_not_depend_on_loops": (
        lambda x: _trained(x, cosine=False), 1.1, 3.0
    ),
    "fully_looped_LT_worsens": (_of_many("LT"), 2.0, 0.5),
    "fully_looped_LT_worse_than_one_loop": (_of_many("LT"), 2.0, 0.5),
    "fully_looped_FLT_keeps": (_of_many("FLT"), 1.0, 2.0),
    "fully_looped_LT_i_keeps": (_of_many("LT_i"), 1.0, 2.0),
    "fully_looped_FLT_below_LT": (_of_many("FLT"), 0.5, 2.0),
    "iso_depth_recurrence_is_worth_something": (_law, 0.5, -0.5),
    "iso_depth_recurrence_is_worth_less_than_layers": (_law, 0.5, 1.5),
    "iso_depth_sharing_costs": (lambda x: _law(cost=x), 1.5, 0.5),
    "loop_makes_newton_steps": (iterates("newton", "per_loop"), 2.0, 0.5),
    "newton_step_is_linear": (iterates("newton", "acceleration"), 1.0, 2.0),
    "descent_step_accelerates": (iterates("gradient_descent", "acceleration"), 3.0, 1.0),
    "newton_nearer_than_descent": (iterates("newton", "nearer"), 0.1, -0.1),
    "linear_attention_learns_inverse_covariance": (preconditioned("spread"), 1.5, 5.0),
    "linear_attention_reaches_preconditioned_descent": (preconditioned("over_theory"), 1.0, 2.0),
    "linear_attention_beats_plain_descent": (preconditioned("over_descent"), 0.3, 0.8),
    "looped_error_falls_with_every_loop": (conditioned("rise"), 1.0, 1.5),
    "standard_error_rises_between_layers": (conditioned("rise", "standard"), 1.5, 1.0),
    "ill_conditioned_inputs_need_depth": (conditioned("rise"), 2.0, 0.5),
    "few_functions_are_memorised": (diverse(4), 0.9, 0.1),
    "many_functions_are_left_behind": (diverse(256), 0.1, 0.9),
    "looped_needs_no_more_functions": (diverse(32), 0.8, 1.5),
    "mixture_is_told_apart": (mixed("worst"), 1.1, 1.5),
    "mixture_looped_matches_standard": (mixed("looped_over_standard"), 1.1, 1.5),
    "mixture_fails_between_classes": (mixed("sums"), 2.0, 1.1),
}  # fmt: skip
