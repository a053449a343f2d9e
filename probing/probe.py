"""Probe a run and write the results into its folder: probing.json, probing.npz, probing/.

result = probe(load_run("runs/NAME"), ProbingSettings(run="runs/NAME"))
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from looplab.conf.checksum import key_of
from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config
from looplab.evaluation.bootstrap import Interval, bootstrap, plain
from looplab.evaluation.kept import Arrays, found
from looplab.evaluation.panel import padded
from looplab.evaluation.published import matching
from looplab.evaluation.remarks import remarks
from looplab.training.assemble import trained_loops
from looplab.training.run_folder.run import Run, RunError

from .fit import RATES, Fit, has_control
from .report import panels
from .results import Probing, Result, about, check_loops, kept_and_shown, kept_in, request_of
from .settings import ProbingSettings
from .targets import find_target

KIND = "probing"
_PUBLISHED = Path(__file__).with_name("published.json")


def probe(run: Run, settings: ProbingSettings) -> Probing:
    """Train probes on every layer (or loop) and context length of a run, and test them.

    Every result is stored in the run folder, and read from there for the same weights, settings and
    code; probing.json and probing/figures/ show the last one requested. An interrupted training
    resumes from its last save. In the result, `targets` has what `summary` returns. Raises
    ConfigError for targets that the run's task does not have, RunError for a run
    that another process is probing, or whose probes' errors are not finite.
    """
    settings, request = _asked(run, settings)
    folder = run.path / "probing" / f"probes-{key_of(request)}"

    def compute() -> tuple[Result, Arrays]:
        fit = Fit(run, settings, 1 + (settings.loops or trained_loops(run.config)), folder)
        fit.train()
        arrays = fit.errors()
        if not all(np.isfinite(values).all() for values in arrays.values()):
            raise RunError(
                f"probes of {run.path} have errors that are not finite; a lower rate helps"
            )
        targets = summary(fit, arrays)
        for entry in published(run.config, fit.layers) if fit.reference else ():
            if entry["target"] in targets:
                targets[entry["target"]]["published"] = entry
        return {**about(run), "targets": targets}, arrays

    result = kept_and_shown(run, KIND, request, compute, panels, settings)
    shutil.rmtree(folder, ignore_errors=True)  # they are large, and only this result needs them
    return result


def stored(run: Run, settings: ProbingSettings) -> Probing | None:
    """The result of `probe` where it is stored, else None. Raises as it for settings and runs."""
    _, request = _asked(run, settings)
    result: Probing | None = found(kept_in(run, KIND), KIND, request)
    return result and {**result, "remarks": remarks(run)}


def _asked(run: Run, settings: ProbingSettings) -> tuple[ProbingSettings, dict[str, object]]:
    """The settings for this run, with the rate filled in and no control if its task has none; and
    all that the result depends on."""
    check_loops(run, settings.loops)
    for name in settings.targets:
        try:
            of = find_target(name).of
        except ValueError as error:
            raise ConfigError("targets", f"cannot hold {name}: {error}") from None
        if of is not None and not isinstance(run.task, of):
            problem = f"it is one of {of.name} tasks, which {run.task.name} is not"
            raise ConfigError("targets", f"cannot hold {name}: {problem}")
    control = settings.control and has_control(run.task)
    if settings.control and not control:
        print(f"no control (w = 1): {run.task.name} is not of dense linear functions", flush=True)
    rate = settings.learning_rate or RATES[settings.protocol]
    settings = replace(settings, learning_rate=rate, control=control)
    modules = {type(find_target(name)).__module__ for name in settings.targets}
    return settings, request_of(run, settings, *sorted(modules))


def summary(fit: Fit, arrays: Arrays) -> dict[str, dict[str, Any]]:
    """The arrays of `Fit.errors` and the errors in training as plain values, by target.

    Each has its `label` and `lengths`; its own `variance` by length; the probes' `error` by layer,
    mean over lengths, and `by_length`, rows of layers, with 90 % intervals over prompts, and the
    `seed_spread` over probe seeds; `unexplained`, 1 − R² by layer and length (None where the target
    does not vary); `linear`, the linear probes' error; `control`, whose
    least error over the layers (`control_least`) `minus_control` is less, paired by prompt;
    `learning`, the error in training over the target's variance, by part of the training, which
    ends at step `until_step`, and layer; and the `published` curve, if any.
    """
    return {name: _target_summary(fit, name, arrays) for name in fit.targets}


def _target_summary(fit: Fit, name: str, arrays: Arrays) -> dict[str, Any]:
    errors, linear = arrays[f"{name}/probes"], arrays[f"{name}/linear"]
    variance = arrays[f"{name}/variance"]
    by_length = errors.mean(1, dtype=np.float64)  # over seeds: [layers, lengths, P]
    by_seed = errors.mean((2, 3), dtype=np.float64)
    one_seed = by_seed.shape[1] == 1
    interval = _interval(fit, by_length)
    varies = variance > 1e-9 * variance.max()
    unexplained = by_length.mean(2) / np.where(varies, variance, np.nan)
    sums, steps = fit.learning[name], fit.settings.steps
    # Of the training's parts: step s belongs to part s · parts // steps.
    ends = [-(-steps * part // len(sums)) for part in range(1, len(sums) + 1)]
    counts = torch.tensor(ends).diff(prepend=torch.tensor([0]))[:, None]
    result: dict[str, Any] = {
        "label": fit.targets[name].label,
        "lengths": list(fit.lengths(name)),
        "variance": variance.tolist(),
        "error": _interval(fit, by_length.mean(1)).to_json(),
        "seed_spread": [None] * len(errors) if one_seed else by_seed.std(1, ddof=1).tolist(),
        "by_length": {part: values.tolist() for part, values in interval._asdict().items()},
        "unexplained": [plain(row) for row in unexplained],
        "learning": {"until_step": ends, "error": (sums.cpu() / counts).tolist()},
        "linear": _interval(fit, linear.mean(1, dtype=np.float64)).to_json(),
    }
    if "control" in fit.probes:
        control = arrays[f"{name}/control"].mean((1, 2), dtype=np.float64)  # [layers, P]
        interval, least = _interval(fit, control), int(control.mean(1).argmin())
        result["control"] = interval.to_json()
        at_least = {part: float(values[least]) for part, values in interval._asdict().items()}
        result["control_least"] = {"layer": least, **at_least}
        result["minus_control"] = _interval(fit, by_length.mean(1) - control[least]).to_json()
    return result


def _interval(fit: Fit, errors: NDArray[Any]) -> Interval:
    """Mean and 90 % interval over prompts of errors [..., P]."""
    return bootstrap(np.moveaxis(errors, -1, 0), fit.settings.resamples, fit.settings.seed)


def published(config: Config, layers: int) -> list[dict[str, Any]]:
    """The curves printed in a notebook of arXiv 2311.12424's code for a run's task, model, b and T,
    one for each `target`: in `mean` the errors of its probes at `layers` layers (or the read-in and
    loops) as the reference protocol has them, None beyond the last one printed. `steps` are those
    of the probes, on batches of `prompts` prompts, `training_steps` the probed model's."""
    return [
        {
            "target": curve["target"],
            "label": curve["label"],
            "mean": padded([v / config.task.dims for v in curve["mean"][:layers]], layers),
            **{key: result["protocol"][key] for key in ("steps", "prompts", "training_steps")},
            "rounding": curve["rounding"],
            "source": result["source"],
        }
        for curve, result in matching(_PUBLISHED, config)
    ]
