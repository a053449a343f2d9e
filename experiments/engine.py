"""Carry out experiments: train what is not trained, measure, draw and judge.

print(perform(ExperimentSettings(experiment=("fig03",))))
"""

import traceback
from collections.abc import Mapping, Sequence
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

from looplab.conf.mistakes import ConfigError, RunError
from looplab.conf.schema import FigureSettings
from looplab.evaluation import evaluate_run
from looplab.evaluation.kept import shown
from looplab.evaluation.load import load_run
from looplab.evaluation.measured import Measured
from looplab.evaluation.remarks import remarks, shared
from looplab.evaluation.verdict import Verdict
from looplab.show.drawing import save_panels
from looplab.show.panel import Panel
from looplab.show.standard_panels import panels
from looplab.show.tables import Part, Table, document
from looplab.show.verdicts import count_text, heading, statements, verdict_cells, verdict_parts
from looplab.training.run_folder.files import write_bytes
from looplab.training.run_folder.status import holding, status_of

from .claims import claims_of
from .definition import EVALUATION, Experiment, Member, described, module_of
from .evidence import Evidence
from .judge import judge
from .many_runs import progress, train_all
from .measuring import Measurement, Request, measure_runs
from .settings import ALL, ExperimentSettings

KIND = "experiment"
_EXTENSIONS = {"text": "txt", "csv": "csv", "markdown": "md", "latex": "tex"}
_DRAWN_WITHIN = 120.0  # seconds that another process's drawing of the same experiment is waited for
_HEAD = (
    "experiment",
    "statement",
    "claim",
    "quantity",
    "published",
    "ours (90 %)",
    "line",
    "line set",
    "seeds",
    "verdict",
)
_STATEMENTS = ("statement", "verdict", "claims", "what the paper says")


def perform(settings: ExperimentSettings) -> str:
    """Carry out the experiments and return the text to print: each one's verdicts and files.

    With action=figure nothing is trained. Raises RunError, after all else is written and printed,
    where runs failed; ConfigError as `ExperimentSettings.check`.
    """
    experiments = settings.experiments
    _check_functions(experiments)
    members = {experiment.name: settings.members(experiment) for experiment in experiments}
    failures: dict[str, str] = {}
    if settings.action == "train":
        everyone = [member for each in members.values() for member in each]
        logs = Path(settings.folder) / "experiments" / "logs"
        failures = train_all(everyone, logs, settings.jobs, shipped=True)
    results, text = list[dict[str, Any]](), ""
    problems = [f"{path}: {reason}" for path, reason in failures.items()]
    for experiment in experiments:
        try:
            result = _finish(experiment, members[experiment.name], settings, failures)
        except Exception as error:  # the other experiments are measured and drawn all the same
            if len(experiments) == 1 and not problems:
                raise
            if not isinstance(error, RunError | ConfigError):
                traceback.print_exc()
            named = "" if isinstance(error, RunError) else f"{experiment.name}: "
            problems.append(f"{named}{error or type(error).__name__}")
            continue
        results.append(result)
        parts: list[Part] = [f"{result['experiment']}: {result['title']} ({result['source']})"]
        if result["verdicts"]:
            parts += ["", *verdict_parts(result["verdicts"])]
        if result["missing"]:
            parts += ["", "not finished:", *(f"  {line}" for line in result["missing"])]
        if lines := remark_lines(members[experiment.name], result):
            parts += ["", "remarks:", *(f"  {line}" for line in lines)]
        parts += ["", f"{settings.result_folder(experiment)}: result.json, figures/"]
        text = document(parts, settings.tables.format)
        if len(experiments) > 1:
            print(f"\n{text}", flush=True)
    if len(experiments) > 1:
        text = _all_claims(results, settings) if results else ""
    if problems:
        if text:
            print(text, flush=True)
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise RunError(f"{problems[0]}{more}")
    return text


def _check_functions(experiments: Sequence[Experiment]) -> None:
    """Raises ConfigError for a claim without a function, before anything is trained."""
    for experiment in experiments:
        for claim in claims_of(experiment).values():
            claim.estimate.function()


def _finish(
    experiment: Experiment,
    members: Sequence[Member],
    settings: ExperimentSettings,
    failures: Mapping[str, str],
) -> dict[str, Any]:
    """Measure what is finished, draw, judge and write one experiment's result."""
    everything = [measured(member, failures) for member in members]
    runs = [run for run in everything if run.arrays]
    measurement = _measured(experiment, settings, everything)
    command = settings.command(experiment)
    if not runs and not measurement.results and settings.action == "figure":
        raise RunError(
            f"{experiment.name} at scale={settings.scale} has nothing finished to draw: "
            f"{command} trains it"
        )
    evidence = Evidence(everything, measurement.results)
    result = result_of(experiment, members, everything, failures)
    result |= {
        "scale": settings.scale,
        "command": command,
        "panels": [*panels(experiment.panels, runs), *measurement.panels],
        "verdicts": [
            judge(claim, evidence, scale=settings.scale, command=command)
            for claim in claims_of(experiment).values()
        ],
        "missing": [*result["missing"], *measurement.missing],
    }
    show_result(result, settings.result_folder(experiment), settings.figures)
    return result


def measured(member: Member, failures: Mapping[str, str], shipped: bool = True) -> Measured:
    """A member with the errors of its evaluation, measured now where they are not stored; without
    errors where its training is not finished, or failed. `shipped`: as in `progress`."""
    now = progress(member.config, shipped)
    if now.state != "finished" or now.path in failures:
        return Measured(member.label, member.config, now.step, {})
    run = load_run(now.path)
    result, arrays = evaluate_run.measured(run, member.config.evaluation, member.config.device)
    labels = {"": result.labels} | {name: each.labels for name, each in result.shifts.items()}
    path, lines = str(run.path), tuple(remarks(run))
    zero = {name: each.zero for name, each in result.shifts.items()}
    return Measured(member.label, member.config, run.step, arrays, labels, path, lines, zero)


def _measured(
    experiment: Experiment, settings: ExperimentSettings, runs: Sequence[Measured]
) -> Measurement:
    """The experiment's own measurement of its runs."""
    if experiment.measure == EVALUATION:
        return Measurement()
    given, finished = experiment.at(settings.scale).settings, [run for run in runs if run.arrays]
    others, stored_only = [r.config for r in runs if not r.arrays], settings.action == "figure"
    request = Request(given, finished, settings.folder, settings.jobs, stored_only, others)
    measure = module_of(experiment.measure).measure
    if "request" not in signature(measure).parameters:
        return measure_runs(experiment.measure, request)
    measurement: Measurement = measure(request)
    return measurement


def result_of(
    experiment: Experiment,
    members: Sequence[Member],
    runs: Sequence[Measured],
    failures: Mapping[str, str],
    shipped: bool = True,
) -> dict[str, Any]:
    """The part of a result.json that says what was trained, from the `runs` that `measured` gave.

    `members` are, for each training, the `label` of its curve, its run folder, the words of the
    command that trains it alone, its step of `steps`, its state (finished, unfinished, missing,
    failed), and the remarks that its numbers must be read with, or why it failed; `missing` has a
    line for each that is not finished.
    """
    results, missing = list[dict[str, Any]](), list[str]()
    for name, member, run in zip(described(members), members, runs, strict=True):
        now, steps = progress(member.config, shipped), member.config.training.steps
        state, lines = "unfinished" if now.step else "missing", list(run.remarks)
        if now.path in failures or now.state == "failed":
            reason = status_of(Path(now.path)).get("reason", "its training failed")
            state, lines = "failed", [failures.get(now.path) or str(reason)]
        elif now.state == "finished":
            state = "finished"
        if state != "finished":
            missing.append(f"{name}: {state}, {now.step:,} of {steps:,} steps")
        about = {"label": member.label, "run": now.path, "words": list(member.words)}
        step = {"seed": member.config.seed, "step": now.step, "steps": steps}
        results.append({**about, **step, "state": state, "remarks": lines})
    about = {"experiment": experiment.name, "title": experiment.title, "source": experiment.source}
    return {**about, "members": results, "missing": missing}


def show_result(result: Mapping[str, Any], folder: Path, figures: FigureSettings) -> None:
    """Write a result and draw its panels, unless the same one is there."""
    finished = [each for each in result["members"] if each["state"] == "finished"]
    count = len(result["missing"])
    lines = [f"{count} of its trainings or measurements not finished"] * bool(count)
    if others := sum(bool(each["remarks"]) for each in finished):
        lines.append(f"{others} of its {len(finished)} trainings have remarks: see result.json")
    plain = [panel.plain() for panel in result["panels"]]
    verdicts = [verdict.plain() for verdict in result["verdicts"]]
    content = {**result, "panels": plain, "verdicts": verdicts, "figures": figures.plain()}
    drawn = [Panel.read(panel) for panel in plain]  # with the numbers that are written
    make = partial(save_panels, folder / "figures", drawn, figures, result["title"], lines)
    with holding(folder, KIND, _DRAWN_WITHIN):
        shown(folder / "result.json", KIND, content, make)


def remark_lines(members: Sequence[Member], result: Mapping[str, Any]) -> list[str]:
    """The remarks that the numbers of the finished trainings must be read with, each once, with the
    trainings that it is on."""
    named = zip(described(members), result["members"], strict=True)
    return shared({name: each["remarks"] for name, each in named if each["state"] == "finished"})


def _all_claims(results: Sequence[Mapping[str, Any]], settings: ExperimentSettings) -> str:
    """The number of claims of several experiments by verdict; those of `experiment=all` and
    `all_language` are written as one table."""
    parts = claims_parts(results)
    found = {result["experiment"] for result in results}
    if without := [each.name for each in settings.experiments if each.name not in found]:
        parts.insert(1, f"without {', '.join(without)}, which has no result")
    if not settings.is_all:
        return f"\n{parts[0]}"
    name = "claims" if settings.experiment == ALL else "claims_language"
    folder = settings.result_folder(name)
    path = folder.with_name(f"{folder.name}.{_EXTENSIONS[settings.tables.format]}")
    write_bytes(path, f"{document(parts, settings.tables.format, width=0)}\n".encode())
    return f"\n{parts[0]}: {path}"


def claims_parts(results: Sequence[Mapping[str, Any]]) -> list[Part]:
    """The number of claims by verdict, for each source too, and for each the tables of its claims
    and of the statements that these judge; a claim of several experiments stands in the first that
    measured it."""
    chosen: dict[str, tuple[str, Verdict]] = {}
    for result in results:
        for verdict in result["verdicts"]:
            earlier = chosen.get(verdict.claim)
            if earlier is None or (earlier[1].mean is None and verdict.mean is not None):
                chosen[verdict.claim] = (result["experiment"], verdict)
    papers: dict[str, list[tuple[str, Verdict]]] = {}
    for experiment, verdict in chosen.values():
        papers.setdefault(heading(verdict.source), []).append((experiment, verdict))
    parts: list[Part] = [count_text([verdict.verdict for _, verdict in chosen.values()])]
    for paper, claims in papers.items():
        verdicts = [verdict for _, verdict in claims]
        rows = []
        for experiment, each in claims:
            *numbers, seeds, name = verdict_cells(each)
            about = [experiment, each.statement, each.sentence, each.quantity]
            rows.append([*about, *numbers, each.line_set, seeds, name])
        count = count_text([verdict.verdict for verdict in verdicts])
        parts += ["", f"{paper}: {count}", Table(_HEAD, rows)]
        if whole := statements(verdicts):
            parts += [Table(_STATEMENTS, whole)]
    return parts
