"""Carry out experiments: train what is not trained, measure, draw and judge.

print(perform(ExperimentSettings(experiment=("fig03",))))
"""

import traceback
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path

from looplab.conf.mistakes import ConfigError, RunError
from looplab.conf.schema import FigureSettings
from looplab.evaluation import evaluate_run
from looplab.evaluation.evaluated_run import EvaluatedRun
from looplab.evaluation.kept import shown
from looplab.evaluation.load import load_run
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
from .question import Answer, Request, Result, answer_of
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
        logs = Path(settings.folder) / "experiments" / "logs"
        everyone = list(chain.from_iterable(members.values()))
        failures = train_all(everyone, logs, settings.jobs, shipped=True)
    results: list[Result] = []
    text = ""
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
        parts: list[Part] = [f"{experiment.name}: {experiment.title} ({experiment.source})"]
        if result["verdicts"]:
            parts.append("")
            parts += verdict_parts(result["verdicts"])
        parts += _listed("not finished", result["missing"])
        parts += _listed("remarks", remark_lines(members[experiment.name], result))
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


def _listed(title: str, lines: Sequence[str]) -> list[str]:
    """Lines of text below their title; nothing where there are none."""
    if not lines:
        return []
    return ["", f"{title}:", *(f"  {line}" for line in lines)]


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
) -> Result:
    """Measure what is finished, draw, judge and write one experiment's result."""
    everything = [evaluated(member, failures) for member in members]
    runs = [run for run in everything if run.arrays]
    answer = _answer(experiment, settings, everything)
    command = settings.command(experiment)
    if not runs and not answer.results and settings.action == "figure":
        raise RunError(
            f"{experiment.name} at scale={settings.scale} has nothing finished to draw: "
            f"{command} trains it"
        )
    evidence = Evidence(everything, answer.results)
    claims = claims_of(experiment).values()
    about = {"scale": settings.scale, "command": command}
    verdicts = [judge(claim, evidence, **about) for claim in claims]
    result = result_of(experiment, members, everything, failures)
    result["missing"] += answer.missing
    result |= about
    result["panels"] = panels(experiment.panels, runs) + list(answer.panels)
    result["verdicts"] = verdicts
    show_result(result, settings.result_folder(experiment), settings.figures)
    return result


def evaluated(member: Member, failures: Mapping[str, str], shipped: bool = True) -> EvaluatedRun:
    """A member with the errors of its evaluation, measured now where they are not stored; without
    errors where its training is not finished, or failed. `shipped`: as in `progress`."""
    now = progress(member.config, shipped)
    if now.state != "finished" or now.path in failures:
        # Without errors it has no part in pictures and claims.
        return EvaluatedRun(member.label, member.config, now.step, {})
    run = load_run(now.path)
    result, arrays = evaluate_run.evaluated(run, member.config.evaluation, member.config.device)
    shifts = result.shifts
    labels = {"": result.labels} | {name: shift.labels for name, shift in shifts.items()}
    return EvaluatedRun(
        member.label,
        member.config,
        run.step,
        arrays,
        labels,
        path=str(run.path),
        remarks=tuple(remarks(run)),
        zero={name: shift.zero for name, shift in shifts.items()},
    )


def _answer(
    experiment: Experiment, settings: ExperimentSettings, runs: Sequence[EvaluatedRun]
) -> Answer:
    """What the experiment's own file finds of its runs."""
    if experiment.measure == EVALUATION:
        return Answer()
    request = Request(
        settings=experiment.at(settings.scale).settings,
        runs=[run for run in runs if run.arrays],
        folder=settings.folder,
        processes=settings.jobs,
        stored_only=settings.action == "figure",
        unfinished=[run.config for run in runs if not run.arrays],
    )
    module = module_of(experiment.measure)
    # Probes and tables have commands of their own, which keep what they find.
    if not hasattr(module, "measure"):
        answer: Answer = module.answer(request)
        return answer
    return answer_of(experiment.measure, request)


def result_of(
    experiment: Experiment,
    members: Sequence[Member],
    runs: Sequence[EvaluatedRun],
    failures: Mapping[str, str],
    shipped: bool = True,
) -> Result:
    """The part of a result.json that says what was trained, from the `runs` that `evaluated` gave.

    `members` are, for each training, the `label` of its curve, its run folder, the words of the
    command that trains it alone, its step of `steps`, its state (finished, unfinished, missing,
    failed), and the remarks that its numbers must be read with, or why it failed; `missing` has a
    line for each that is not finished.
    """
    results = []
    missing = []
    for name, member, run in zip(described(members), members, runs, strict=True):
        now = progress(member.config, shipped)
        steps = member.config.training.steps
        lines = list(run.remarks)
        if now.path in failures or now.state == "failed":
            reason = status_of(Path(now.path)).get("reason", "its training failed")
            state = "failed"
            lines = [failures.get(now.path) or str(reason)]
        elif now.state == "finished":
            state = "finished"
        else:
            state = "unfinished" if now.step else "missing"
        if state != "finished":
            missing.append(f"{name}: {state}, {now.step:,} of {steps:,} steps")
        result: Result = {"label": member.label, "run": now.path}
        result["words"] = list(member.words)
        result |= {"seed": member.config.seed, "step": now.step, "steps": steps}
        results.append(result | {"state": state, "remarks": lines})
    about = {"experiment": experiment.name, "title": experiment.title, "source": experiment.source}
    return about | {"members": results, "missing": missing}


def show_result(result: Result, folder: Path, figures: FigureSettings) -> None:
    """Write a result and draw its panels, unless the same one is there."""
    finished = [member for member in result["members"] if member["state"] == "finished"]
    lines = []
    if result["missing"]:
        lines.append(f"{len(result['missing'])} of its trainings or answers not finished")
    with_remarks = sum(bool(member["remarks"]) for member in finished)
    if with_remarks:
        lines.append(
            f"{with_remarks} of its {len(finished)} trainings have remarks: see result.json"
        )
    plain = [panel.plain() for panel in result["panels"]]
    verdicts = [verdict.plain() for verdict in result["verdicts"]]
    content = {**result, "panels": plain, "verdicts": verdicts, "figures": figures.plain()}
    drawn = [Panel.read(panel) for panel in plain]  # with the numbers that are written
    make = partial(save_panels, folder / "figures", drawn, figures, result["title"], lines)
    with holding(folder, KIND, _DRAWN_WITHIN):
        shown(folder / "result.json", KIND, content, make)


def remark_lines(members: Sequence[Member], result: Result) -> list[str]:
    """The remarks that the numbers of the finished trainings must be read with, each once, with the
    trainings that it is on."""
    by_name = {}
    for name, member in zip(described(members), result["members"], strict=True):
        if member["state"] == "finished":
            by_name[name] = member["remarks"]
    return shared(by_name)


def _all_claims(results: Sequence[Result], settings: ExperimentSettings) -> str:
    """The number of claims of several experiments by verdict; those of `experiment=all` and
    `all_language` are written as one table."""
    parts = claims_parts(results)
    done = {result["experiment"] for result in results}
    asked = [experiment.name for experiment in settings.experiments]
    without = [name for name in asked if name not in done]
    if without:
        parts.insert(1, f"without {', '.join(without)}, which has no result")
    if not settings.is_all:
        return f"\n{parts[0]}"
    name = "claims" if settings.experiment == ALL else "claims_language"
    folder = settings.result_folder(name)
    path = folder.with_name(f"{folder.name}.{_EXTENSIONS[settings.tables.format]}")
    # The table of a file is not cut to the width of a terminal.
    write_bytes(path, f"{document(parts, settings.tables.format, width=0)}\n".encode())
    return f"\n{parts[0]}: {path}"


def claims_parts(results: Sequence[Result]) -> list[Part]:
    """The number of claims by verdict, for each source too, and for each the tables of its claims
    and of the statements that these judge; a claim of several experiments stands in the first that
    measured it."""
    chosen: dict[str, tuple[str, Verdict]] = {}
    for result in results:
        for verdict in result["verdicts"]:
            # The first verdict on a claim stands, unless only a later one has a number.
            earlier = chosen.get(verdict.claim)
            if earlier is None or (earlier[1].mean is None and verdict.mean is not None):
                chosen[verdict.claim] = (result["experiment"], verdict)
    papers: dict[str, list[tuple[str, Verdict]]] = {}
    for experiment, verdict in chosen.values():
        # By paper, in the order of the first claim of each.
        papers.setdefault(heading(verdict.source), []).append((experiment, verdict))
    parts: list[Part] = [count_text([verdict.verdict for _, verdict in chosen.values()])]
    for paper, claims in papers.items():
        verdicts = []
        rows = []
        for experiment, verdict in claims:
            *numbers, seeds, name = verdict_cells(verdict)
            row = [experiment, verdict.statement, verdict.sentence, verdict.quantity]
            row += numbers
            row += [verdict.line_set, seeds, name]
            rows.append(row)
            verdicts.append(verdict)
        count = count_text([verdict.verdict for verdict in verdicts])
        parts += ["", f"{paper}: {count}", Table(_HEAD, rows)]
        judged = statements(verdicts)
        if judged:
            parts.append(Table(_STATEMENTS, judged))
    return parts
