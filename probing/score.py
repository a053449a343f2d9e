"""The errors of probes prompt by prompt, and their summary."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from reloop.evaluation.bootstrap import Interval, bootstrap
from reloop.evaluation.cache import Arrays

from .fit import Fit
from .results import Learning, ProbedTarget
from .solve import solve_linear


@torch.no_grad()
def measure(fit: Fit) -> Arrays:
    """Errors on the test prompts over the protocol's divisor: `<target>/probes` and, if there is
    one, `<target>/control` [layers, seeds, lengths, P], `<target>/linear` [layers, lengths, P];
    and `<target>/variance` [lengths], the target's own on these prompts."""
    prompts, parameters = fit.test_prompts()
    divisor = fit.protocol.error_divisor(fit.task.dims)
    values = {name: fit.values(name, prompts, parameters) for name in fit.targets}
    arrays: Arrays = {}
    for name, target_values in values.items():
        lengths = target_values.shape[1]
        arrays[f"{name}/variance"] = (target_values.var(0).mean(-1) / divisor).numpy()
        shape = (fit.layers, fit.settings.seeds, lengths, len(prompts))
        for kind in ("probes", "control")[: 1 + bool(fit.control)]:
            arrays[f"{name}/{kind}"] = np.empty(shape, dtype=np.float32)
        arrays[f"{name}/linear"] = np.empty((fit.layers, *shape[2:]), dtype=np.float32)
    linear_maps = solve_linear(fit)
    for layer, rows, states in fit.states(prompts):
        for name, target_values in values.items():
            targets = target_values[rows].transpose(0, 1).to(states.device)  # [lengths, b, outputs]
            by_kind = {"probes": fit.predict(fit.probes[name], name, layer, states)}
            if fit.control:
                by_kind["control"] = fit.predict(fit.control[name], name, layer, states)
            by_kind["linear"] = linear_maps[name].predict(layer, states)
            for kind, predictions in by_kind.items():
                errors = (predictions - targets).square().mean(-1) / divisor
                arrays[f"{name}/{kind}"][layer, ..., rows] = errors.cpu().numpy()
    return arrays


def summary(fit: Fit, arrays: Arrays) -> dict[str, ProbedTarget]:
    """For each target: errors by layer, mean over lengths, and by length, with intervals over
    prompts and the spread over probe seeds; 1 − R² by length; the control's errors."""
    return {name: _target_summary(fit, name, arrays) for name in fit.targets}


def _target_summary(fit: Fit, name: str, arrays: Arrays) -> ProbedTarget:
    target = fit.targets[name]
    errors, linear = arrays[f"{name}/probes"], arrays[f"{name}/linear"]
    variance = arrays[f"{name}/variance"]
    by_length = errors.mean(1, dtype=np.float64)  # over seeds: [layers, lengths, P]
    valid = variance > 1e-9 * variance.max()
    interval = _interval(fit, by_length)
    result: ProbedTarget = {
        "label": target.label,
        "lengths": list(fit.lengths(name)),
        "variance": variance.tolist(),
        "error": _interval(fit, by_length.mean(1)).to_json(),
        "seed_spread": _spread(errors),
        "by_length": {
            "mean": by_length.mean(2).tolist(),
            "low": interval.low.tolist(),
            "high": interval.high.tolist(),
        },
        "unexplained": _unexplained(by_length, variance, valid),
        "learning": _learning(fit, name),
        "linear": _interval(fit, linear.mean(1, dtype=np.float64)).to_json(),
        "linear_unexplained": _unexplained(linear, variance, valid),
    }
    if fit.control:
        control = arrays[f"{name}/control"].mean((1, 2), dtype=np.float64)  # [layers, P]
        interval, least = _interval(fit, control), int(control.mean(1).argmin())
        result["control"] = interval.to_json()
        result["control_least"] = {
            "layer": least,
            "mean": float(interval.mean[least]),
            "low": float(interval.low[least]),
            "high": float(interval.high[least]),
        }
        result["minus_control"] = _interval(fit, by_length.mean(1) - control[least]).to_json()
    return result


def _learning(fit: Fit, name: str) -> Learning:
    """The mean error in training over the target's variance (in the reference code's protocol, the
    error itself), by part of the training and layer; and the steps at which the parts ended."""
    sums, steps = fit.learning[name], fit.settings.steps
    # Step s belongs to part s · parts // steps.
    ends = [-(-steps * part // len(sums)) for part in range(1, len(sums) + 1)]
    counts = torch.tensor(ends).diff(prepend=torch.tensor([0]))[:, None]
    return {"until_step": ends, "error": (sums.cpu() / counts).tolist()}


def _interval(fit: Fit, errors: NDArray[Any]) -> Interval:
    """Mean and 90 % interval over prompts of errors [..., P]."""
    return bootstrap(np.moveaxis(errors, -1, 0), fit.settings.resamples, fit.settings.seed)


def _spread(errors: NDArray[Any]) -> list[float | None]:
    """Standard deviation over seeds of the mean error, by layer; None for a single seed."""
    means = errors.mean((2, 3), dtype=np.float64)
    if means.shape[1] == 1:
        return [None] * len(means)
    return [float(value) for value in means.std(1, ddof=1)]


def _unexplained(
    by_length: NDArray[Any], variance: NDArray[Any], valid: NDArray[np.bool_]
) -> list[list[float | None]]:
    """1 − R² by layer and length; None if the target does not vary."""
    ratio = by_length.mean(2, dtype=np.float64) / np.where(valid, variance, 1.0)
    return [
        [float(value) if is_valid else None for value, is_valid in zip(row, valid, strict=True)]
        for row in ratio
    ]
