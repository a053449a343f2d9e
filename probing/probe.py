"""Probe a run and write the results into its folder: probing.json, probing.npz, probing/.

result = probe(load_run("runs/NAME"), ProbingSettings(run="runs/NAME"))
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator

from looplab.conf.checksum import key_of
from looplab.conf.mistakes import ConfigError
from looplab.evaluation.bootstrap import Interval, bootstrap
from looplab.evaluation.drawing import save_panels
from looplab.evaluation.kept import Arrays, arrays_of, found, kept, shown
from looplab.evaluation.measure import weights_digest
from looplab.evaluation.remarks import remarks
from looplab.evaluation.style import kind_of
from looplab.training.assemble import build_curriculum, trained_loops
from looplab.training.run_folder.files import write_arrays
from looplab.training.run_folder.run import Run, RunError, RunFolder
from looplab.training.run_folder.sources import EVALUATED, sources_of

from .fit import Fit
from .linear import solve_linear
from .protocols import PROTOCOLS, control_prompts
from .report import panels
from .results import ProbedTarget, Probing, published, title
from .settings import ProbingSettings
from .targets import find_target

FORMAT = 4  # of probing.json; a result of another format is measured again
KIND = "probing"
# Settings that do not bear on the result.
_NO_EFFECT = ("run", "device", "memory", "plugins", "figures", "tables")


def probe(run: Run, settings: ProbingSettings) -> Probing:
    """Train probes on every layer (or loop) and context length of a run, and test them.

    Every result is stored in the run folder, and read from there for the same weights, settings and
    code; probing.json and probing/figures/ show the last one requested. An interrupted training
    resumes from its last save. Raises ConfigError for targets that the run's task does not have,
    RunError for a run that cannot be probed, that another process is probing, or whose probes'
    errors are not finite.
    """
    settings = _settings_for(run, settings)
    request, folder = _request(run, settings), _folder(run)
    probes = folder.parent / f"probes-{key_of(request)}"

    def compute() -> tuple[dict[str, object], Arrays]:
        with RunFolder(run.path).lock(KIND):
            return _train_and_test(run, settings, probes)

    result: Probing = kept(folder, KIND, request, compute)
    shutil.rmtree(probes, ignore_errors=True)  # they are large, and only this result needs them
    result["remarks"] = remarks(run)

    def make() -> Iterator[Path]:
        errors = run.path / "probing.npz"
        write_arrays(errors, arrays_of(folder, result))
        yield errors
        above = title(result, settings.prompts)
        yield from save_panels(
            folder.parent / "figures", panels(result), settings.figures, above, result["remarks"]
        )

    shown(run.path / "probing.json", KIND, {**result, "figures": settings.figures.plain()}, make)
    return result


def stored(run: Run, settings: ProbingSettings) -> Probing | None:
    """The result of `probe` where it is stored, else None. Raises as it for settings and runs."""
    result: Probing | None = found(_folder(run), KIND, _request(run, _settings_for(run, settings)))
    if result is not None:
        result["remarks"] = remarks(run)
    return result


def _folder(run: Run) -> Path:
    return run.path / "probing" / "kept"


def _request(run: Run, settings: ProbingSettings) -> dict[str, object]:
    """All that the result depends on."""
    targets = {type(find_target(name)).__module__ for name in settings.targets}
    return {
        "format": FORMAT,
        "step": run.step,
        "weights": weights_digest(run.model),
        "settings": {k: v for k, v in asdict(settings).items() if k not in _NO_EFFECT},
        "sources": sources_of(
            *EVALUATED, "probing", plugins=[type(run.task).__module__, *sorted(targets)]
        ),
    }


def _train_and_test(
    run: Run, settings: ProbingSettings, folder: Path
) -> tuple[dict[str, object], Arrays]:
    """Train and test the probes: the result and its errors; RunError if one is not finite."""
    config, b = run.config, trained_loops(run.config)
    fit = Fit(run, settings, 1 + (settings.loops or b), folder)
    fit.train()
    arrays = measure(fit)
    if not all(np.isfinite(values).all() for values in arrays.values()):
        raise RunError(f"probes of {run.path} have errors that are not finite; a lower rate helps")
    targets = summary(fit, arrays)
    for entry in published(config, fit.protocol, fit.layers):
        if entry["target"] in targets:
            targets[entry["target"]]["published"] = entry
    return {
        "task": config.task.name,
        "family": config.model.family,
        "style": kind_of(config.model),
        "dims": run.task.dims,
        "b": b,
        "targets": targets,
    }, arrays


def _settings_for(run: Run, settings: ProbingSettings) -> ProbingSettings:
    """The settings for this run: the rate filled in, no control if its task has none."""
    _check_run(run)
    if settings.learning_rate is None:
        rate = PROTOCOLS[settings.protocol].learning_rate
        settings = replace(settings, learning_rate=rate)
    max_loops = run.model.loop.most_loops
    if settings.loops is not None and max_loops is not None and settings.loops > max_loops:
        raise ConfigError(
            "loops", f"is {settings.loops}, but the run's model has {max_loops} layers"
        )
    for name in settings.targets:
        try:
            find_target(name).needs(run.task)
        except ValueError as error:
            raise ConfigError("targets", f"cannot hold {name}: {error}") from None
    if settings.control:
        try:
            control_prompts(run.task, Generator().manual_seed(0), batch=1, points=2)
        except ValueError as error:
            print(f"no control: {error}", flush=True)
            return replace(settings, control=False)
    return settings


def _check_run(run: Run) -> None:
    steps = run.config.training.steps
    imported = "imported" in (RunFolder(run.path).made_with() or {})  # it needs no steps
    if run.step != steps and not imported:
        raise RunError(f"{run.path} is not finished: {run.step} of {steps} steps")
    stage = build_curriculum(run.config, run.task)(max(run.step - 1, 0))
    task = run.config.task
    if (stage.dims, stage.points) != (task.dims, task.points):
        raise RunError(
            f"{run.path} has been trained on {stage.dims} of {task.dims} dimensions and "
            f"{stage.points} of {task.points} points only: nothing can be read beyond"
        )


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
    """The arrays of `measure` and the errors in training as plain values, by target."""
    return {name: _target_summary(fit, name, arrays) for name in fit.targets}


def _target_summary(fit: Fit, name: str, arrays: Arrays) -> ProbedTarget:
    target = fit.targets[name]
    errors, linear = arrays[f"{name}/probes"], arrays[f"{name}/linear"]
    variance = arrays[f"{name}/variance"]
    by_length = errors.mean(1, dtype=np.float64)  # over seeds: [layers, lengths, P]
    by_seed = errors.mean((2, 3), dtype=np.float64)
    one_seed = by_seed.shape[1] == 1
    valid = variance > 1e-9 * variance.max()
    interval = _interval(fit, by_length)
    sums, steps = fit.learning[name], fit.settings.steps
    # Of the training's parts: step s belongs to part s · parts // steps.
    ends = [-(-steps * part // len(sums)) for part in range(1, len(sums) + 1)]
    counts = torch.tensor(ends).diff(prepend=torch.tensor([0]))[:, None]
    result: ProbedTarget = {
        "label": target.label,
        "lengths": list(fit.lengths(name)),
        "variance": variance.tolist(),
        "error": _interval(fit, by_length.mean(1)).to_json(),
        "seed_spread": [None] * len(errors) if one_seed else by_seed.std(1, ddof=1).tolist(),
        "by_length": {
            "mean": by_length.mean(2).tolist(),
            "low": interval.low.tolist(),
            "high": interval.high.tolist(),
        },
        "unexplained": _unexplained(by_length, variance, valid),
        "learning": {"until_step": ends, "error": (sums.cpu() / counts).tolist()},
        "linear": _interval(fit, linear.mean(1, dtype=np.float64)).to_json(),
        "linear_unexplained": _unexplained(linear, variance, valid),
    }
    if fit.control:
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


def _unexplained(
    by_length: NDArray[Any], variance: NDArray[Any], valid: NDArray[np.bool_]
) -> list[list[float | None]]:
    """1 − R² by layer and length; None if the target does not vary."""
    ratio = by_length.mean(2, dtype=np.float64) / np.where(valid, variance, 1.0)
    return [
        [float(value) if is_valid else None for value, is_valid in zip(row, valid, strict=True)]
        for row in ratio
    ]
