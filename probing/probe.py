"""Probe a run and write the results into its folder: probing.json, probing.npz, probing/.

result = probe(load_run("runs/NAME"), ProbingSettings(run="runs/NAME"))
"""

from __future__ import annotations

import shutil
from dataclasses import asdict, replace

import numpy as np
from torch import Generator

from reloop.conf.checksum import key_of
from reloop.conf.mistakes import ConfigError
from reloop.conf.schema import FigureSettings
from reloop.evaluation.artefacts import Artefacts, is_shown, show
from reloop.evaluation.cache import Arrays
from reloop.evaluation.measure import weights_digest
from reloop.evaluation.remarks import remarks
from reloop.training.assemble import build_curriculum, trained_loops
from reloop.training.run_folder.files import write_arrays
from reloop.training.run_folder.run import Run, RunError, RunFolder
from reloop.training.run_folder.sources import EVALUATED, sources_of

from .fit import Fit
from .pictures import draw_probing
from .prompts import control_prompts
from .protocols import PROTOCOLS
from .published import published
from .results import Findings, Probing
from .score import measure, summary
from .settings import ProbingSettings
from .targets import find_target

_FORMAT = 3  # of probing.json; a result of another format is measured again
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
    artefacts, request = _artefacts(run), _request(run, settings)
    result: Probing | None = artefacts.find(request)
    if result is None:
        layers = 1 + (settings.loops or trained_loops(run.config))
        with RunFolder(run.path).lock("probing"):
            fit = Fit(run, settings, layers, run.path / "probing" / f"probes-{key_of(request)}")
            result = artefacts.keep(request, *_train_and_test(run, fit, layers))
            # The probes are large, and only this result needs them.
            shutil.rmtree(fit.folder, ignore_errors=True)
    result["remarks"] = remarks(run)
    _show(run, artefacts, result, settings.figures)
    return result


def stored(run: Run, settings: ProbingSettings) -> Probing | None:
    """The result of `probe` where it is stored, else None. Raises as it for settings and runs."""
    result: Probing | None = _artefacts(run).find(_request(run, _settings_for(run, settings)))
    if result is not None:
        result["remarks"] = remarks(run)
    return result


def _artefacts(run: Run) -> Artefacts:
    return Artefacts(run.path / "probing" / "kept", "probing")


def _request(run: Run, settings: ProbingSettings) -> dict[str, object]:
    """All that the result depends on."""
    return {
        "format": _FORMAT,
        "step": run.step,
        "weights": weights_digest(run.model),
        "settings": {k: v for k, v in asdict(settings).items() if k not in _NO_EFFECT},
        "sources": _sources(run, settings),
    }


def _train_and_test(run: Run, fit: Fit, layers: int) -> tuple[Findings, Arrays]:
    """Train and test the probes: the result and its errors; RunError if one is not finite."""
    fit.train()
    arrays = measure(fit)
    if not all(np.isfinite(values).all() for values in arrays.values()):
        raise RunError(f"probes of {run.path} have errors that are not finite; a lower rate helps")
    result: Findings = {
        "task": run.config.task.name,
        "family": run.config.model.family,
        "dims": run.task.dims,
        "b": trained_loops(run.config),
        "targets": summary(fit, arrays),
    }
    for entry in published(run.config, fit.protocol, layers):
        if entry["target"] in result["targets"]:
            result["targets"][entry["target"]]["published"] = entry
    return result, arrays


def _show(run: Run, artefacts: Artefacts, result: Probing, figures: FigureSettings) -> None:
    """Write and draw the last result requested, unless its files are there."""
    path, errors = run.path / "probing.json", run.path / "probing.npz"
    content = {**result, "figures": figures.plain()}
    if not is_shown(path, "probing", content):
        write_arrays(errors, artefacts.arrays(result["key"]))
        pictures = draw_probing(result, run.path / "probing" / "figures", figures)
        show(path, "probing", content, [errors, *pictures])


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


def _sources(run: Run, settings: ProbingSettings) -> dict[str, str]:
    """The source files that the result depends on, with their fingerprints."""
    targets = {type(find_target(name)).__module__ for name in settings.targets}
    task = type(run.task).__module__
    return sources_of(*EVALUATED, "probing", plugins=[task, *sorted(targets)])


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
