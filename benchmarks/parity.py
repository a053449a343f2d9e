"""Whether a faster way to train learns the same: loss curves of several variants, seed by seed.

    python -m benchmarks.parity --setting sparse --steps 500 --variants eager:fp32,eager:bf16

All variants of a seed start from the same weights and see the same batches (in TF32 a linear
function's values are also TF32 products); the first is the one that the others are compared with.
Steps follow the setting's own curriculum, or with --fixed its end from step 0. Early differences
are those of the arithmetic; later the curves diverge like those of two seeds, so that only means
over seeds are comparable.
"""

from __future__ import annotations

if __name__ == "__main__":  # before the imports, which take a while
    from reloop.conf.entry import begin

    begin()

import argparse
import statistics
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from reloop.benchmarks.arguments import Parser, at_least, span
from reloop.benchmarks.common import reason, write_report
from reloop.benchmarks.settings import NAMES, at_full_size, setting
from reloop.benchmarks.variants import Variant, make_trainer, parse_variants, updates
from reloop.conf.build import config_to_mapping
from reloop.conf.checks.config import check_config
from reloop.conf.mistakes import ConfigError
from reloop.conf.schema import Config
from reloop.training.device import place

Curves = dict[str, dict[int, list[float]]]  # losses step by step, by variant and seed


def main(words: list[str]) -> int:
    """Train all, print the summary; returns the exit code, 1 if a variant failed."""
    options = _parse(words)
    base, *rest = options.variants
    curves: Curves = {variant.name: {} for variant in options.variants}
    failures: dict[str, str] = {}
    for seed in range(options.seeds):
        for variant in options.variants:
            try:
                losses = train_losses(options.config, seed, variant, options)
            except Exception as error:  # any exception of a compiler or a card
                failures[f"{variant.name}, seed {seed}"] = reason(error)
                continue
            curves[variant.name][seed] = losses
            print(f"seed {seed}, {variant.name}: {losses[0]:.4g} to {losses[-1]:.4g}", flush=True)
        summary = {
            variant.name: compare(curves[base.name], curves[variant.name], options)
            for variant in rest
        }
        if options.json:  # after every seed, so that an interruption loses only one
            content = {
                "config": config_to_mapping(options.config),
                "base": base.name,
                "early": options.early,
                "late": options.late,
                "summary": summary,
                "failures": failures,
                "losses": {name: _rounded(by_seed) for name, by_seed in curves.items()},
            }
            write_report(options.json, options.device, content)
    print(_of_base(base.name, curves[base.name], options))
    for name, facts in summary.items():
        print(_line(name, facts, options))
    for training, message in failures.items():
        print(f"{training} failed: {message}")
    return int(bool(failures))


def train_losses(
    config: Config, seed: int, variant: Variant, options: argparse.Namespace
) -> list[float]:
    """The loss of each of the first `options.steps` steps."""
    variant.prepare()
    trainer = make_trainer(replace(config, seed=seed), options.device, variant)
    update, losses = updates(trainer, variant), []
    for step in range(options.steps):
        update(step)
        losses.append(trainer.fetch().loss)
    return losses


def compare(
    base: dict[int, list[float]], other: dict[int, list[float]], options: argparse.Namespace
) -> dict[str, Any]:
    """By seed: the median relative difference over the early steps, and the ratio of the mean
    losses over the late ones."""
    seeds = [seed for seed in base if seed in other]
    early, late = slice(*options.early), slice(*options.late)
    differences = {
        seed: statistics.median(
            abs(b - a) / a for a, b in zip(base[seed][early], other[seed][early], strict=True)
        )
        for seed in seeds
    }
    ratios = {
        seed: statistics.fmean(other[seed][late]) / statistics.fmean(base[seed][late])
        for seed in seeds
    }
    return {"early_median_relative_difference": differences, "late_mean_loss_ratio": ratios}


def _of_base(name: str, curves: dict[int, list[float]], options: argparse.Namespace) -> str:
    late = [statistics.fmean(losses[slice(*options.late)]) for losses in curves.values()]
    early = [statistics.fmean(losses[slice(*options.early)]) for losses in curves.values()]
    if not late:
        return f"{name}: no curve"
    return (
        f"{name}: mean loss over steps {_span(options.early)}: {statistics.fmean(early):.4g}; "
        f"over steps {_span(options.late)}: {_spread(late)}"
    )


def _line(name: str, facts: dict[str, Any], options: argparse.Namespace) -> str:
    differences = list(facts["early_median_relative_difference"].values())
    if not differences:
        return f"{name}: no curve to compare"
    ratios = list(facts["late_mean_loss_ratio"].values())
    return (
        f"{name}: median relative difference over steps {_span(options.early)}: "
        f"{statistics.median(differences):.2g}; mean loss over steps {_span(options.late)} over "
        f"the first's: {_spread(ratios)}"
    )


def _spread(values: Sequence[float]) -> str:
    """Mean over seeds, standard deviation, and each seed's."""
    by_seed = ", ".join(f"{value:.4g}" for value in values)
    deviation = f" ± {statistics.stdev(values):.2g}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.4g}{deviation} (seed by seed {by_seed})"


def _span(steps: tuple[int, int]) -> str:
    return f"{steps[0]}-{steps[1]}"


def _rounded(by_seed: dict[int, list[float]]) -> dict[int, list[float]]:
    """Rounded to seven digits, the precision of fp32."""
    return {seed: [float(f"{loss:.7g}") for loss in losses] for seed, losses in by_seed.items()}


def _parse(words: list[str]) -> argparse.Namespace:
    parser = Parser(prog="benchmarks.parity", description=__doc__)
    parser.add_argument("--setting", choices=NAMES, default="sparse")
    parser.add_argument("--variants", default="eager:fp32,eager:bf16", metavar="B:P[:graph],…")
    parser.add_argument("--seeds", type=at_least(1), default=3, help="how many, from 0 on")
    parser.add_argument("--steps", type=at_least(1), default=500)
    parser.add_argument("--fixed", action="store_true", help="at the curriculum's end from step 0")
    for name in ("dims", "points", "width", "heads", "batch", "b", "T"):
        parser.add_argument(f"--{name}", type=at_least(1), help="in place of the setting's")
    parser.add_argument("--lr", type=float, help="in place of the setting's")
    parser.add_argument("--early", type=span, default=(0, 100), metavar="FROM:TO")
    parser.add_argument("--late", type=span, default=(250, 500), metavar="FROM:TO")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write curves and summary")
    options = parser.parse_args(words)
    try:
        options.device = place(options.device, "auto", "auto").device
        options.variants = parse_variants(options.variants, options.device)
        if len(set(options.variants)) < max(2, len(options.variants)):
            raise ValueError("--variants must name at least two, none of them twice")
        options.config = _config(options)
        check_config(options.config)
        if max(options.early[1], options.late[1]) > options.steps:
            raise ConfigError("--steps", "must reach the ends of --early and --late")
        if options.steps > options.config.training.steps:
            raise ConfigError("--steps", f"goes beyond the {options.config.training.steps} there")
    except ValueError as error:
        parser.error(str(error))
    return options


def _config(options: argparse.Namespace) -> Config:
    """The setting with the values given as options."""
    config = setting(options.setting)
    config = replace(
        config,
        task=_replaced(config.task, dims=options.dims, points=options.points),
        model=_replaced(config.model, n_embd=options.width, n_head=options.heads),
        loops=_replaced(config.loops, b=options.b, T=options.T),
        training=_replaced(config.training, batch_size=options.batch, learning_rate=options.lr),
    )
    return at_full_size(config) if options.fixed else config


def _replaced(group: Any, **values: Any) -> Any:
    return replace(group, **{key: value for key, value in values.items() if value is not None})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
