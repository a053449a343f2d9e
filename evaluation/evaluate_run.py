"""One evaluation of a run, stored in its folder under its request.

result, arrays = measured(run, run.config.evaluation)
"""

from dataclasses import replace
from typing import Any

from looplab.conf.build import build
from looplab.conf.checks.config import check_evaluation
from looplab.conf.checks.reach import check_reach
from looplab.conf.command import as_word
from looplab.conf.plugins import added_names
from looplab.conf.schema import Config, EvaluationConfig
from looplab.conf.words import run_py
from looplab.tasks import SHIFTS
from looplab.tasks.language import Language
from looplab.tasks.language.documents import eval_files
from looplab.training.assemble import trained_loops
from looplab.training.run_folder.metrics import Metrics
from looplab.training.run_folder.run import Run, RunFolder
from looplab.training.run_folder.sources import measured_by

from .evaluation import FORMAT, Evaluation, Shift
from .kept import Arrays, arrays_of, found, kept
from .load import writable
from .measure import (
    Measure,
    baseline_names,
    called_by_name,
    reference_line,
    shift_names,
    weights_digest,
)
from .results import by_examples, intervals_by, summary
from .text.measure import digests, measure_language

KIND = "evaluation"


def changed(
    settings: EvaluationConfig, changes: dict[str, Any], config: Config
) -> EvaluationConfig:
    """The settings with these changes, by name. Raises ConfigError where a run of this
    configuration cannot be evaluated so."""
    if not changes:
        return settings
    settings = build(EvaluationConfig, {**vars(settings), **changes}, "evaluation.")
    check_evaluation(replace(config, evaluation=settings))
    return settings


def measured(
    run: Run, settings: EvaluationConfig, device: str = "auto"
) -> tuple[Evaluation, Arrays]:
    """The result of one evaluation and its errors prompt by prompt, of which nothing is drawn: the
    stored ones, or else computed and stored."""
    asked = replace(run.config, evaluation=settings)
    settings = resolved(run, settings)

    def compute() -> tuple[dict[str, Any], Arrays]:
        check_reach(asked, "evaluation")
        with RunFolder(place.path).lock(KIND):
            result, arrays = _measure(place, settings, device)
        text = [f"task.eval={each}"] if (each := getattr(run.task, "eval", "")) else []
        words = setting_words(settings, resolved(run, run.config.evaluation))
        command = run_py("action=evaluate", f"run={run.path}", *text, *words)
        return {**result.plain(), "command": command}, arrays

    with writable(run) as place:
        folder = place.path / "evaluations"
        content = kept(folder, KIND, _request(run, settings), compute)
        return Evaluation.read(content), arrays_of(folder, content)


def is_stored(run: Run, settings: EvaluationConfig) -> bool:
    """Return whether these weights and the code have a stored result of one evaluation."""
    request = _request(run, resolved(run, settings))
    return found(run.path / "evaluations", KIND, request) is not None


def _request(run: Run, settings: EvaluationConfig) -> dict[str, object]:
    """All that an evaluation by resolved settings depends on."""
    data, asked = run.task.data.identity(), settings.plain()
    if isinstance(run.task, Language):
        asked["eval"] = digests(eval_files(run.task.eval))
    else:
        del asked["tokens"]  # of texts alone
    added = added_names("evaluation.shifts")
    shifts = {name: repr(SHIFTS[name]) for name in shift_names(settings) if name in added}
    return {
        **({"data": data} if data else {}),
        **({"shifts": shifts} if shifts else {}),
        "format": FORMAT,
        "step": run.step,
        "weights": weights_digest(run.model),
        "settings": asked,
        "sources": measured_by(_measure, *called_by_name(run.task, settings)),
    }


def setting_words(settings: EvaluationConfig, default: EvaluationConfig) -> list[str]:
    """The words of a command that ask for these settings in place of the default ones."""
    return [
        f"evaluation.{key}={as_word(value)}"
        for key, value in vars(settings).items()
        if value != getattr(default, key)
    ]


def resolved(run: Run, settings: EvaluationConfig) -> EvaluationConfig:
    """The settings with the defaults that depend on the run: b for `loops` and `halt_by`, 3 b (of a
    text 4 b) for `max_loops`, which is at least the loop that errors by examples are read at. A
    standard model is limited to its layers, one with lanes to the loops that it has lane weights
    for."""
    b, limit = trained_loops(run.config), run.model.loop.most_loops
    settings = replace(settings, every=None)  # of training alone
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


def _measure(run: Run, settings: EvaluationConfig, device: str) -> tuple[Evaluation, Arrays]:
    """The result of one evaluation, and its errors prompt by prompt."""
    measure, intervals = Measure(run, settings, device), intervals_by(settings)
    arrays = measure.model()
    labels = {}
    for name in baseline_names(run.task, settings):
        labels[name], arrays[name] = measure.baseline(name)
    result = summary(run, settings, arrays, labels)
    language, shifts = None, dict[str, Shift]()
    if run.task.is_text:
        language, text_arrays = measure_language(measure)
        arrays |= text_arrays
    for name in shift_names(settings):
        shifted, solver = measure.shifted(name), reference_line(run.task)
        own = measure.model(shifted, name)
        label, own[solver] = measure.baseline(solver, shifted)
        shifts[name] = Shift(
            label=SHIFTS[name].label,
            zero=shifted.zero,
            labels={solver: label},
            by_loop=intervals(own["by_loop"]),
            **vars(by_examples(settings, own, [solver])),
        )
        arrays |= {f"{name}/{part}": values for part, values in own.items()}
    return replace(result, language=language, shifts=shifts), arrays


def logged(run: Run) -> list[dict[str, float]]:
    """The records of a run's training up to its step; none for a run without a log."""
    records, _ = Metrics(RunFolder(run.path).metrics).read()
    return [record for record in records if record["step"] <= run.step]
