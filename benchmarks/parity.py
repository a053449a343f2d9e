"""Whether a faster way to train learns the same: loss curves of several variants, seed by seed.

    python -m benchmarks.parity config=sparse steps=500 'variants=[eager:fp32,eager:bf16]'

All variants of a seed start from the same weights and see the same batches (in TF32 a linear
function's values are also TF32 products); the first is the one that the others are compared with.
Steps follow the configuration's own curriculum, or with fixed=true its end from step 0. Early
differences are those of the arithmetic; later the curves diverge like those of two seeds, so that
only means over seeds are comparable. Settings of run.py (task.dims=2) hold for all.
"""

from __future__ import annotations

if __name__ == "__main__":  # before the imports, which take a while
    from looplab.conf.entry import begin

    begin()

import statistics
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import TypedDict

import torch

from looplab.benchmarks.common import reason, run_benchmark, write_report
from looplab.benchmarks.settings import ParitySettings
from looplab.benchmarks.variants import Variant, make_trainer, parse_variants, updates
from looplab.conf.build import config_to_mapping
from looplab.conf.mistakes import RunError
from looplab.conf.schema import Config
from looplab.training.device import place

Curves = dict[str, dict[int, list[float]]]  # losses step by step, by variant and seed


class Comparison(TypedDict):
    """By seed: the median relative difference over the early steps, and the ratio of the mean
    losses over the late ones."""

    early_median_relative_difference: dict[int, float]
    late_mean_loss_ratio: dict[int, float]


def main(words: list[str]) -> int:
    """Run the command; returns the exit code, 1 if a training failed."""
    return run_benchmark("parity", ParitySettings, words, __doc__, _run)


def _run(settings: ParitySettings) -> None:
    """Train all, print the summary, write; RunError if a training failed."""
    device, config = place(settings.device, "auto", "auto").device, settings.run_config()
    base, *rest = variants = parse_variants(settings.variants, device)
    curves: Curves = {variant.name: {} for variant in variants}
    failures: dict[str, str] = {}
    for seed, variant in product(range(settings.seeds), variants):
        try:
            losses = train_losses(replace(config, seed=seed), variant, settings.steps, device)
        except Exception as error:  # any exception of a compiler or a card
            failures[f"{variant.name}, seed {seed}"] = reason(error)
        else:
            curves[variant.name][seed] = losses
            print(f"seed {seed}, {variant.name}: {losses[0]:.4g} to {losses[-1]:.4g}", flush=True)
        summary = {
            other.name: compare(curves[base.name], curves[other.name], settings) for other in rest
        }
        content = {
            "config": config_to_mapping(config),
            "base": base.name,
            "early": settings.early,
            "late": settings.late,
            "summary": summary,
            "failures": failures,
            "losses": {  # rounded to seven digits, the precision of fp32
                name: {seed: [float(f"{x:.7g}") for x in losses] for seed, losses in each.items()}
                for name, each in curves.items()
            },
        }
        # After every training, so that an interruption loses only one.
        write_report(settings.json, device, content)
    print(_of_base(base.name, curves[base.name], settings))
    for name, comparison in summary.items():
        print(_line(name, comparison, settings))
    for training, message in failures.items():
        print(f"{training} failed: {message}")
    if failures:
        raise RunError(f"{len(failures)} of {settings.seeds * len(variants)} trainings failed")


def train_losses(config: Config, variant: Variant, steps: int, device: torch.device) -> list[float]:
    """The loss of each of the first `steps` steps."""
    variant.prepare()
    trainer = make_trainer(config, device, variant)
    update, losses = updates(trainer, variant), []
    for step in range(steps):
        update(step)
        losses.append(trainer.fetch().loss)
    return losses


def compare(
    base: dict[int, list[float]], other: dict[int, list[float]], settings: ParitySettings
) -> Comparison:
    """The comparison of a variant with the base, for the seeds that both have."""
    seeds = [seed for seed in base if seed in other]
    early, late = slice(*settings.early), slice(*settings.late)
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


def _of_base(name: str, curves: dict[int, list[float]], settings: ParitySettings) -> str:
    late = [statistics.fmean(losses[slice(*settings.late)]) for losses in curves.values()]
    early = [statistics.fmean(losses[slice(*settings.early)]) for losses in curves.values()]
    if not late:
        return f"{name}: no curve"
    return (
        f"{name}: mean loss over steps {_span(settings.early)}: {statistics.fmean(early):.4g}; "
        f"over steps {_span(settings.late)}: {_spread(late)}"
    )


def _line(name: str, comparison: Comparison, settings: ParitySettings) -> str:
    differences = list(comparison["early_median_relative_difference"].values())
    if not differences:
        return f"{name}: no curve to compare"
    ratios = list(comparison["late_mean_loss_ratio"].values())
    return (
        f"{name}: median relative difference over steps {_span(settings.early)}: "
        f"{statistics.median(differences):.2g}; mean loss over steps {_span(settings.late)} over "
        f"the first's: {_spread(ratios)}"
    )


def _spread(values: Sequence[float]) -> str:
    """Mean over seeds, standard deviation, and each seed's."""
    by_seed = ", ".join(f"{value:.4g}" for value in values)
    deviation = f" ± {statistics.stdev(values):.2g}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.4g}{deviation} (seed by seed {by_seed})"


def _span(steps: tuple[int, ...]) -> str:
    return f"{steps[0]}-{steps[1]}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
