"""Parity compares loss curves seed by seed: a faster way to train should learn the same.

    python -m benchmarks.parity config=sparse steps=500 variants=eager:fp32,eager:bf16

All variants of a seed start from the same weights and see the same batches. In TF32 a linear
function's values are TF32 products, too. The others are compared with the first variant. Early
differences are those of the arithmetic. Later the curves diverge like those of two seeds, so that
only means over seeds are comparable.
"""

if __name__ == "__main__":  # before the imports, which take a while
    from looplab.conf.entry import begin

    begin()

import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from statistics import fmean, median, stdev

import torch

from looplab.benchmarks.common import reason, run_benchmark, write_report
from looplab.benchmarks.settings import ParitySettings, named_config
from looplab.benchmarks.variants import Variant, parse_variants
from looplab.conf.mistakes import RunError
from looplab.conf.schema import Config
from looplab.training.device import place

Curves = dict[int, list[float]]  # losses step by step, by seed


def main(words: list[str]) -> int:
    """Run the command; returns the exit code, 1 if a training failed."""
    return run_benchmark("parity", ParitySettings, words, __doc__, _run)


def _run(settings: ParitySettings) -> None:
    """Train all, print the summary, write; RunError if a training failed."""
    device = place(settings.device, "auto", "auto").device
    config = named_config(settings.config)
    variants = parse_variants(settings.variants, device)
    base = variants[0]
    curves: dict[str, Curves] = {variant.name: {} for variant in variants}
    failures: dict[str, str] = {}
    for seed, variant in product(range(settings.seeds), variants):
        try:
            losses = train_losses(replace(config, seed=seed), variant, settings.steps, device)
        except Exception as error:  # any exception of a compiler or a card
            failures[f"{variant.name}, seed {seed}"] = reason(error)
        else:
            curves[variant.name][seed] = losses
            print(f"seed {seed}, {variant.name}: {losses[0]:.4g} to {losses[-1]:.4g}", flush=True)
        summary = {}
        for other in variants[1:]:
            summary[other.name] = compare(curves[base.name], curves[other.name], settings)
        content = {
            "config": settings.config,
            "early": settings.early,
            "late": settings.late,
            "base": base.name,
            "summary": summary,
            "failures": failures,
            "losses": curves,
        }
        # After every training, so that an interruption loses only one.
        write_report(settings.json, device, content)
    early, late = (f"steps {first}-{end}" for first, end in (settings.early, settings.late))
    for name, by_seed in summary.items():
        differences = by_seed["early_median_relative_difference"].values()
        ratios = list(by_seed["late_mean_loss_ratio"].values())
        if ratios:
            difference = f"{median(differences):.2g}"
            print(
                f"{name}: median relative difference over {early}: {difference}; mean loss over "
                f"{late} over the first's: {_spread(ratios)}"
            )
    for training, message in failures.items():
        print(f"{training} failed: {message}")
    if failures:
        raise RunError(f"{len(failures)} of {settings.seeds * len(variants)} trainings failed")


def train_losses(config: Config, variant: Variant, steps: int, device: torch.device) -> list[float]:
    """The loss of each of the first `steps` steps."""
    trainer = variant.trainer(config, device)
    losses = []
    for step in range(steps):
        variant.update(trainer, step)
        losses.append(trainer.fetch().loss)
    return losses


def compare(base: Curves, other: Curves, settings: ParitySettings) -> dict[str, dict[int, float]]:
    """By seed, of those that both variants have: the median relative difference over the early
    steps, and the ratio of the mean losses over the late ones."""
    early = slice(*settings.early)
    late = slice(*settings.late)
    differences = {}
    ratios = {}
    for seed in sorted(base.keys() & other.keys()):
        pairs = zip(base[seed][early], other[seed][early], strict=True)
        # `ours` is the first variant, which the others are compared with.
        differences[seed] = median(abs(theirs - ours) / ours for ours, theirs in pairs)
        ratios[seed] = fmean(other[seed][late]) / fmean(base[seed][late])
    return {"early_median_relative_difference": differences, "late_mean_loss_ratio": ratios}


def _spread(values: Sequence[float]) -> str:
    """Mean over seeds, standard deviation, and each seed's."""
    by_seed = ", ".join(f"{value:.4g}" for value in values)
    deviation = f" ± {stdev(values):.2g}" if len(values) > 1 else ""
    return f"{fmean(values):.4g}{deviation} (seed by seed {by_seed})"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
