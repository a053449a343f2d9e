"""Evaluate a run and store the result in its folder: each evaluation in evaluations/, the union of
all in evaluation.json, evaluation.npz and figures/."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import asdict, replace

from looplab.conf.checksum import key_of
from looplab.conf.mistakes import ConfigError, RunError
from looplab.conf.schema import EvaluationConfig, FigureSettings
from looplab.tasks.language import Language
from looplab.tasks.language.documents import eval_files
from looplab.training.assemble import trained_loops
from looplab.training.run_folder.files import read_record, write_arrays
from looplab.training.run_folder.metrics import Metrics
from looplab.training.run_folder.run import Run, RunFolder

from .artefacts import Arrays, Artefacts, is_shown, show
from .figures.evaluation import draw_evaluation
from .measure import (
    Measure,
    baseline_names,
    evaluation_sources,
    reference_line,
    shift_names,
    weights_digest,
)
from .remarks import remarks
from .results import Evaluation, ModelErrors, ShiftResult, Summary, by_solver
from .style import kind_of
from .summary import shift_summary, summary
from .text.measure import digests, measure_language

FORMAT = 3  # of evaluation.json; an older one is computed again
KIND = "evaluation"
_OF_TEXTS = ("tokens", "questions", "shots")  # settings of texts alone


def evaluate(
    run: Run,
    settings: EvaluationConfig | None = None,
    device: str = "auto",
    figures: FigureSettings | None = None,
) -> Evaluation:
    """Errors of a run's model and of the solvers on the evaluation prompts, and on the shifted
    inputs that `settings` name, drawn as `figures` say; without `settings` or `figures`, those of
    the run's configuration.

    Every evaluation is stored in the run folder, in evaluations/, under its request, and read from
    there if weights, settings and code are the same; evaluation.json, evaluation.npz and figures/
    hold the union of those that are still valid for the run's prompts. An interrupted evaluation
    resumes. A run can be evaluated while it is trained.
    """
    settings = resolved(run, settings or run.config.evaluation)
    request = _request(run, settings)
    artefacts, run_remarks = Artefacts(run.path / "evaluations", KIND), remarks(run)
    result: Evaluation | None = artefacts.find(request)
    figures = figures or run.config.figures
    expected = {"key": key_of(request), "remarks": run_remarks, "figures": figures.plain()}
    is_current = is_shown(run.path / "evaluation.json", KIND, expected)
    if result is None or not is_current:
        with RunFolder(run.path).lock(KIND):
            result = result or artefacts.keep(request, *_measure(run, settings, device))
            _write_union(run, artefacts, result, run_remarks, figures)
    return {**result, "remarks": run_remarks}


def measured(run: Run, settings: EvaluationConfig, device: str = "auto") -> tuple[Summary, Arrays]:
    """The result of one evaluation and its errors prompt by prompt: the stored ones, of which
    nothing is drawn again, or those of `evaluate`."""
    result = stored(run, settings) or evaluate(run, settings, device)
    return result, Artefacts(run.path / "evaluations", KIND).arrays(result["key"])


def stored(run: Run, settings: EvaluationConfig) -> Evaluation | None:
    """The stored result of one evaluation, None where these weights or the code have none."""
    artefacts = Artefacts(run.path / "evaluations", KIND)
    result: Evaluation | None = artefacts.find(_request(run, resolved(run, settings)))
    return result


def _request(run: Run, settings: EvaluationConfig) -> dict[str, object]:
    """All that an evaluation by resolved settings depends on."""
    data = run.task.data_identity()
    return {
        **({"data": data} if data else {}),
        "format": FORMAT,
        "step": run.step,
        "weights": weights_digest(run.model),
        "settings": _asked(run, settings),
        "sources": evaluation_sources(run.task, settings),
    }


def _asked(run: Run, settings: EvaluationConfig) -> dict[str, object]:
    """The settings as plain values, without those that the run's task has no use for."""
    values: dict[str, object] = asdict(settings)
    if isinstance(run.task, Language):
        return values | {"eval": digests(eval_files(run.task.eval))}
    return {key: value for key, value in values.items() if key not in _OF_TEXTS}


def evaluation_of(run: Run) -> Evaluation:
    """The latest evaluation of a run's weights by the current code; if there is none, a new one by
    the run's configuration."""
    union = read_record(run.path / "evaluation.json", KIND).content or {}
    results: list[Evaluation] = Artefacts(run.path / "evaluations", KIND).all()
    for result in results:
        same = result["key"] == union.get("key") and result["weights"] == weights_digest(run.model)
        same = same and _is_of_its_data(result, run)
        if same and result["sources"] == evaluation_sources(run.task, _settings_of(result)):
            return {**result, "remarks": remarks(run)}
    return evaluate(run, run.config.evaluation, run.config.device)


def _is_of_its_data(result: Evaluation, run: Run) -> bool:
    """Whether a result is of the run's data as they are; also where they are gone, so that there is
    no other."""
    try:
        return result.get("data", {}) == run.task.data_identity()
    except (ConfigError, RunError):
        return True


def resolved(run: Run, settings: EvaluationConfig) -> EvaluationConfig:
    """The settings with the defaults that depend on the run: b for `loops` and `halt_by`, 3 b (of a
    text 4 b) for `max_loops`, which is at least the loop that errors by examples are read at. A
    standard model is limited to its layers, one with lanes to the loops that it has lane weights
    for."""
    b, limit = trained_loops(run.config), run.model.loop.most_loops
    if run.config.model.family == "standard":
        return replace(settings, loops=b, max_loops=b, halt_by=b)
    loops = settings.loops or b
    if limit is not None and loops != "auto":
        loops = min(int(loops), limit)
    latest_halt = settings.halt_by or b
    min_loops = max(b, latest_halt if loops == "auto" else int(loops))
    max_loops = max(settings.max_loops or (4 if run.task.is_text else 3) * b, min_loops)
    max_loops = min(max_loops, limit or max_loops)
    return replace(settings, loops=loops, max_loops=max_loops, halt_by=min(latest_halt, max_loops))


def _measure(run: Run, settings: EvaluationConfig, device: str) -> tuple[Summary, Arrays]:
    """The result of one evaluation, and its errors prompt by prompt."""
    measure = Measure(run, settings, device)
    arrays = measure.model()
    labels = {}
    for name in baseline_names(run.task, settings):
        labels[name], arrays[name] = measure.baseline(name)
    result = summary(run, settings, arrays, labels)
    if run.task.is_text:
        result["language"], text_arrays = measure_language(measure)
        arrays |= text_arrays
    for name in shift_names(settings):
        result["shifts"][name], shift_arrays = _measure_shift(measure, name)
        arrays |= {f"{name}/{part}": values for part, values in shift_arrays.items()}
    return result, arrays


def _measure_shift(measure: Measure, name: str) -> tuple[ShiftResult, Arrays]:
    shifted = measure.shifted(name)
    arrays = measure.model(shifted, name)
    solver = reference_line(measure.task)
    label, arrays[solver] = measure.baseline(solver, shifted)
    return shift_summary(measure, name, shifted, arrays, {solver: label}), arrays


def _write_union(
    run: Run,
    artefacts: Artefacts,
    last: Evaluation,
    run_remarks: list[str],
    figures: FigureSettings,
) -> None:
    """Write and draw the union of the last evaluation and those of the same model, code and
    prompts."""
    results: list[Evaluation] = artefacts.all()
    other_results = [
        other
        for other in results
        if other["key"] != last["key"]
        and other["format"] == FORMAT
        and other.get("data") == last.get("data")
        and other["weights"] == last["weights"]
        and other["sources"] == evaluation_sources(run.task, _settings_of(other))
    ]
    result = merge_results(last, other_results)
    result["remarks"], result["style"] = run_remarks, kind_of(run.config.model)
    arrays: Arrays = {}
    for part in (*(other for other in other_results if comparable(other, last)), last):
        for name, values in _rename_arrays(part, artefacts.arrays(part["key"]), last).items():
            longer = values.shape[1:] >= arrays.get(name, values).shape[1:]
            arrays[name] = values if longer else arrays[name]
    # Without evaluation.json while the rest is written: the files beside one always belong to it.
    path, errors = run.path / "evaluation.json", run.path / "evaluation.npz"
    path.unlink(missing_ok=True)
    write_arrays(errors, arrays)
    pictures = draw_evaluation(result, run.path / "figures", figures, logged(run))
    show(path, KIND, {**result, "figures": figures.plain()}, [errors, *pictures])


def logged(run: Run) -> list[dict[str, float]]:
    """The records of a run's training up to its step; none for a run without a log."""
    records, _ = Metrics(RunFolder(run.path).metrics).read()
    return [record for record in records if record["step"] <= run.step]


def _rename_arrays(result: Evaluation, arrays: Arrays, last: Evaluation) -> Arrays:
    """The arrays of one evaluation under their names in the union: those read at other loops than
    the last evaluation's have these loops in their names."""
    reading = reading_name(result)
    if reading == reading_name(last):
        return arrays
    parts = ("model", "loops_used")
    return {
        f"{name}_{reading}" if name.rpartition("/")[2] in parts else name: values
        for name, values in arrays.items()
    }


def _settings_of(result: Evaluation) -> EvaluationConfig:
    """The settings of a result, as far as its sources depend on them."""
    baselines, shifts = result["settings"]["baselines"], result["settings"]["shifts"]
    return EvaluationConfig(
        baselines=None if baselines is None else tuple(baselines), shifts=tuple(shifts)
    )


def merge_results(last: Evaluation, other_results: Sequence[Evaluation]) -> Evaluation:
    """The last evaluation with what the others add to it: further solvers, texts and questions, the
    model read at other loops (`also_read`), shifted inputs, and the longest curve by loop.
    `evaluations` lists all.

    Results on other prompts or with other resamples are only listed.
    """
    result = deepcopy(last)
    result.pop("arrays_sha256", None)
    newest_first = [other for other in reversed(other_results) if comparable(other, last)]
    last_name = reading_name(last)
    for other in sorted(newest_first, key=lambda other: reading_name(other) != last_name):
        _add_solvers(result, other)
        _add_texts(result, other)
        _add_reading(result["by_examples"], result, other, other["by_examples"])
        for name, shift in other["shifts"].items():
            _add_shift(result, other, name, shift)
        if len(other["by_loop"]["loop"]) > len(result["by_loop"]["loop"]):
            result["by_loop"], result["halting"] = other["by_loop"], other["halting"]
        if "above_optimal" in other and "above_optimal" not in result:
            result["above_optimal"] = {**other["above_optimal"], "loops": reading_name(other)}
    result["evaluations"] = [
        {"file": f"evaluations/{each['key']}.json", "settings": each["settings"]}
        for each in (*other_results, last)
    ]
    return result


def reading_name(result: Evaluation) -> str:
    """The loops at which a result reads its model beside b: their number, or the halting rule."""
    settings = result["settings"]
    if result["loops"] != "auto":
        return str(result["loops"])
    rule = f"early exit on its {settings['halt_on']}, {settings['tolerance']:g}"
    return f"{rule}, by loop {settings['halt_by']}"


def comparable(other: Evaluation, last: Evaluation) -> bool:
    """Whether two evaluations of one model have the same prompts and the same resamples."""
    first, second = other["settings"], last["settings"]
    return all(first[key] == second[key] for key in ("prompts", "seed", "resamples"))


def _add_solvers(result: Evaluation, other: Evaluation) -> None:
    for name, label in other["labels"].items():
        if name not in result["labels"]:
            result["labels"][name] = label
            by_solver(result["by_examples"])[name] = by_solver(other["by_examples"])[name]


def _add_texts(result: Evaluation, other: Evaluation) -> None:
    """Add the texts and the questions that the result has not, and solvers on the same text."""
    if "language" not in result or "language" not in other:
        return
    mine, others = result["language"], deepcopy(other["language"])
    for name, text in others["texts"].items():
        own, solvers = mine["texts"].setdefault(name, text), text.get("solvers")
        if solvers and own["tokens"] == text["tokens"]:
            own["solvers"] = solvers | own.get("solvers", {})
    for name, questions in others["questions"].items():
        mine["questions"].setdefault(name, questions)


def _add_reading(
    part: ModelErrors, result: Evaluation, other: Evaluation, other_part: ModelErrors
) -> None:
    """Add another evaluation's model curve if `part` has none read at its loops."""
    name, also_read = reading_name(other), part.get("also_read", {})
    if name not in {part.get("loops", reading_name(result)), str(result["b"]), *also_read}:
        part["also_read"] = {**also_read, name: other_part["model"]}


def _add_shift(result: Evaluation, other: Evaluation, name: str, shift: ShiftResult) -> None:
    if name in result["shifts"]:
        _add_reading(result["shifts"][name], result, other, shift)
        return
    result["shifts"][name] = shift.copy()
    if (other_name := reading_name(other)) != reading_name(result):
        result["shifts"][name]["loops"] = other_name
