"""The learning rate as a function of the step."""

from __future__ import annotations

from reloop.conf.schema import TrainingConfig


def learning_rate(training: TrainingConfig, step: int, peak: float | None = None) -> float:
    """The rate of step `step`, counted from 0: linear warm-up to `peak` (none: learning_rate), then
    constant, then over the last fraction `decay` of the steps linear to `decay_to` of the peak.

    It reaches its end at the step after the last. Warm-up-stable-decay and the trapezoid are
    examples: 500 steps of warm-up, and to 0 over the last 1,000 of 20,000 (warmup=500,
    decay=0.05; arXiv 2606.18524); no warm-up, and to 0 over the last fifth (decay=0.2; arXiv
    2605.18797); over the whole run to a tenth (decay=1, decay_to=0.1; arXiv 2604.21106).
    """
    rate = training.learning_rate if peak is None else peak
    if step < training.warmup:
        rate *= (step + 1) / training.warmup
    decay_steps = training.steps * training.decay
    if training.steps - step < decay_steps:
        fraction = (training.steps - step) / decay_steps
        rate *= training.decay_to + (1 - training.decay_to) * fraction
    return rate
