"""One evaluation of a run, stored in its folder under its request.

result, arrays = evaluated(run, run.config.evaluation)
"""

from dataclasses import replace

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

from .evaluation import FORMAT, Evaluation, ShiftErrors
from .evaluator import (
    Evaluator,
    baseline_names,
    called_by_name,
    reference_line,
    shift_names,
    weights_digest,
)
from .kept import Arrays, arrays_of, found, kept
from .load import writable
from .plain import Fields
from .results import by_examples, intervals_by, summary
from .text.evaluate import digests, evaluate_language

KIND = "evaluation"


def changed(settings: EvaluationConfig, changes: Fields, config: Config) -> EvaluationConfig:
    """The settings with these changes, by name. Raises ConfigError where a run of this
    configuration cannot be evaluated so."""
    if not changes:
        return settings
    settings = build(EvaluationConfig, {**vars(settings), **changes}, "evaluation.")
    check_evaluation(replace(config, evaluation=settings))
    return settings


def evaluated(
    run: Run, settings: EvaluationConfig, device: str = "auto"
) -> tuple[Evaluation, Arrays]:
    """The result of one evaluation and its errors prompt by prompt, of which nothing is drawn: the
    stored ones, or else computed and stored."""
    asked = replace(run.config, evaluation=settings)
    settings = resolved(run, settings)

    def compute() -> tuple[Fields, Arrays]:
        check_reach(asked, "evaluation")
        # Its own lock: a run in training can be evaluated, but by one process at a time.
        with RunFolder(place.path).lock(KIND):
            result, arrays = _evaluate(place, settings, device)
        words = ["action=evaluate", f"run={run.path}"]
        if texts := getattr(run.task, "eval", ""):
            words.append(f"task.eval={texts}")
        words += setting_words(settings, resolved(run, run.config.evaluation))
        return result.plain() | {"command": run_py(*words)}, arrays

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
    # Keys of what is empty are left out, so that it does not bear on the name of the result.
    request: dict[str, object] = {}
    if data := run.task.data.identity():
        request["data"] = data
    added = added_names("evaluation.shifts")
    shifts = {name: repr(SHIFTS[name]) for name in shift_names(settings) if name in added}
    if shifts:
        request["shifts"] = shifts
    asked = settings.plain()
    if isinstance(run.task, Language):
        asked["eval"] = digests(eval_files(run.task.eval))
    else:
        del asked["tokens"]  # of texts alone
    return request | {
        "format": FORMAT,
        "step": run.step,
        "weights": weights_digest(run.model),
        "settings": asked,
        "sources": measured_by(_evaluate, *called_by_name(run.task, settings)),
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
    text 4 b) for `max_loops`.

    `max_loops` is at least the loop that errors by examples are read at. A standard model is
    limited to its layers, one with lanes to the loops that it has lane weights for.
    """
    b = trained_loops(run.config)
    limit = run.model.loop.most_loops
    # What does not bear on the numbers must not bear on the key that they are kept under.
    settings = replace(settings, every=None)  # of training alone
    if run.config.model.family == "standard":
        return replace(settings, loops=b, max_loops=b, halt_by=b)
    loops = settings.loops or b
    # Lanes have weights for so many loops.
    if limit is not None and loops != "auto":
        loops = min(int(loops), limit)
    halt_by = settings.halt_by or b
    # As many as asked for, and enough for b and for the loop that is read.
    max_loops = settings.max_loops or (4 if run.task.is_text else 3) * b
    max_loops = max(max_loops, b, halt_by if loops == "auto" else int(loops))
    if limit is not None:
        max_loops = min(max_loops, limit)
    return replace(settings, loops=loops, max_loops=max_loops, halt_by=min(halt_by, max_loops))


def _evaluate(run: Run, settings: EvaluationConfig, device: str) -> tuple[Evaluation, Arrays]:
    """The result of one evaluation, and its errors prompt by prompt."""
    evaluator = Evaluator(run, settings, device)
    arrays = evaluator.model()
    labels = {}
    for name in baseline_names(run.task, settings):
        labels[name], arrays[name] = evaluator.baseline(name)
    result = summary(run, settings, arrays, labels)
    if run.task.is_text:
        language, text_arrays = evaluate_language(evaluator)
        result = replace(result, language=language)
        arrays |= text_arrays
    shifts = {}
    for name in shift_names(settings):
        shifts[name], shift_arrays = _shift(evaluator, name)
        for key, errors in shift_arrays.items():
            arrays[f"{name}/{key}"] = errors
    return replace(result, shifts=shifts), arrays


def _shift(evaluator: Evaluator, name: str) -> tuple[ShiftErrors, Arrays]:
    """The errors on one kind of shifted inputs, of the model and of a solver."""
    shifted = evaluator.shifted(name)
    solver = reference_line(evaluator.task)
    arrays = evaluator.model(shifted, name)
    label, arrays[solver] = evaluator.baseline(solver, shifted)
    shift = ShiftErrors(
        label=SHIFTS[name].label,
        zero=shifted.zero,
        labels={solver: label},
        by_loop=intervals_by(evaluator.settings)(arrays["by_loop"]),
        **vars(by_examples(evaluator.settings, arrays, [solver])),
    )
    return shift, arrays


def logged(run: Run) -> list[dict[str, float]]:
    """The records of a run's training up to its step; none for a run without a log."""
    records, _ = Metrics(RunFolder(run.path).metrics).read()
    return [record for record in records if record["step"] <= run.step]
