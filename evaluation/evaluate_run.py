"""Measure a run and keep the result in its folder: evaluations/, and all of them put together in
evaluation.json, evaluation.npz and figures/."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from reloop.conf.checksum import key_of
from reloop.conf.schema import EvaluationConfig
from reloop.training.assemble import trained_loops
from reloop.training.run_folder.files import read_record, write_arrays
from reloop.training.run_folder.run import Run, RunFolder

from .artefacts import Artefacts, is_shown, show
from .cache import Arrays
from .measure import (
    Measure,
    baseline_names,
    evaluation_sources,
    reference_line,
    shift_names,
    weights_digest,
)
from .pictures import draw_evaluation
from .remarks import remarks
from .summary import shift_summary, summary
from .union import alike, reading_name, together

FORMAT = 3  # of evaluation.json; an older one is measured anew
KIND = "evaluation"


def evaluate(
    run: Run, settings: EvaluationConfig | None = None, device: str = "auto"
) -> dict[str, Any]:
    """Errors of a run's model and of the solvers beside it on the evaluation prompts, and on the
    shifted inputs that are asked for; by the settings of the run's configuration where none are
    given.

    Every evaluation is kept in the run folder, in evaluations/, under what it asked for, and read
    from there where weights, settings and code are the same; evaluation.json, evaluation.npz and
    figures/ hold all of those that are still true of the run's prompts together. What was computed
    before an interruption is not computed again. A run can be evaluated while it is trained.
    """
    settings = resolved(run, settings or run.config.evaluation)
    asked = {
        "format": FORMAT,
        "step": run.step,
        "weights": weights_digest(run.model),
        "settings": _plain(settings),
        "sources": evaluation_sources(run.task, settings),
    }
    kept, told = Artefacts(run.path / "evaluations", KIND), {"remarks": remarks(run)}
    result = kept.find(asked)
    shown = is_shown(run.path / "evaluation.json", KIND, {"key": key_of(asked), **told})
    if result is not None and shown:
        return result | told
    with RunFolder(run.path).lock(KIND):
        if result is None:
            found, arrays = _measured(run, settings, device)
            result = kept.keep(asked, found, arrays)
        _show(run, kept, result, told)
    return result | told


def evaluation_of(run: Run) -> dict[str, Any]:
    """The evaluation of a run's weights, by today's code, that was asked for last; where there is
    none a new one, as the run was configured."""
    shown = read_record(run.path / "evaluation.json", KIND).content or {}
    for result in Artefacts(run.path / "evaluations", KIND).all():
        same = result["key"] == shown.get("key") and result["weights"] == weights_digest(run.model)
        if same and result["sources"] == evaluation_sources(run.task, _settings_of(result)):
            return result | {"remarks": remarks(run)}
    return evaluate(run, run.config.evaluation, run.config.device)


def resolved(run: Run, settings: EvaluationConfig) -> EvaluationConfig:
    """The settings with their defaults that depend on the run: b loops, the latest to halt at too,
    and 3 b to look beyond, at least as far as errors by examples are read. A standard model has its
    layers and no more, and one with lanes no more loops than it has weights of them."""
    b, most = trained_loops(run.config), run.model.loop.most_loops
    if run.config.model.family == "standard":
        return replace(settings, loops=b, max_loops=b, halt_by=b)
    loops = settings.loops or b
    if most is not None and loops != "auto":
        loops = min(int(loops), most)
    latest = settings.halt_by or b
    least = max(b, latest if loops == "auto" else int(loops))
    furthest = max(settings.max_loops or 3 * b, least)
    furthest = min(furthest, most or furthest)
    return replace(settings, loops=loops, max_loops=furthest, halt_by=min(latest, furthest))


def _measured(run: Run, settings: EvaluationConfig, device: str) -> tuple[dict[str, Any], Arrays]:
    """The result of one evaluation, and its errors prompt by prompt."""
    measure = Measure(run, settings, device)
    arrays = measure.model()
    labels = {}
    for name in baseline_names(run.task, settings):
        labels[name], arrays[name] = measure.baseline(name)
    result = summary(run, settings, arrays, labels)
    for name in shift_names(settings):
        result["shifts"][name], measured = _shifted(measure, name)
        arrays |= {f"{name}/{part}": values for part, values in measured.items()}
    return result, arrays


def _shifted(measure: Measure, name: str) -> tuple[dict[str, Any], Arrays]:
    shifted = measure.shifted(name)
    arrays = measure.model(shifted, name)
    solver = reference_line(measure.task)
    label, arrays[solver] = measure.baseline(solver, shifted)
    return shift_summary(measure, name, shifted, arrays, {solver: label}), arrays


def _show(run: Run, kept: Artefacts, last: dict[str, Any], told: Mapping[str, Any]) -> None:
    """Put the last evaluation and those that are of the same model, code and prompts together, and
    write and draw them."""
    others = [
        each
        for each in kept.all()
        if each["key"] != last["key"]
        and each["format"] == FORMAT
        and each["weights"] == last["weights"]
        and each["sources"] == evaluation_sources(run.task, _settings_of(each))
    ]
    result = together(last, others) | dict(told)
    arrays: Arrays = {}
    for each in (*(each for each in others if alike(each, last)), last):
        for name, values in _named(each, kept.arrays(each), last).items():
            longer = values.shape[1:] >= arrays.get(name, values).shape[1:]
            arrays[name] = values if longer else arrays[name]
    # While the rest is written there is no result: what is found beside one belongs to it.
    path, figures = run.path / "evaluation.json", run.path / "figures"
    path.unlink(missing_ok=True)
    errors = run.path / "evaluation.npz"
    write_arrays(errors, arrays)
    show(path, KIND, result, [errors, *draw_evaluation(result, figures)])


def _named(result: Mapping[str, Any], arrays: Arrays, last: Mapping[str, Any]) -> Arrays:
    """The arrays of one evaluation under the names they have among those of others: what was read
    at other loops than the last evaluation's says so."""
    reading = reading_name(result)
    if reading == reading_name(last):
        return arrays
    parts = ("model", "loops_used")
    return {
        f"{name}_{reading}" if name.rpartition("/")[2] in parts else name: values
        for name, values in arrays.items()
    }


def _settings_of(result: Mapping[str, Any]) -> EvaluationConfig:
    """The settings that a result was asked with, as far as its sources depend on them."""
    baselines, shifts = (result["settings"][key] for key in ("baselines", "shifts"))
    return EvaluationConfig(
        baselines=None if baselines is None else tuple(baselines), shifts=tuple(shifts)
    )


def _plain(settings: EvaluationConfig) -> dict[str, Any]:
    """The settings as JSON gives them back."""
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in asdict(settings).items()
    }
