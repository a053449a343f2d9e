"""Carry out experiments: train what is not trained, measure, draw and judge.

print(perform(ExperimentSettings(experiment=("fig03",))))
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypedDict

from looplab.conf.mistakes import ConfigError, RunError
from looplab.conf.schema import FigureSettings
from looplab.evaluation import evaluate_run, load_run
from looplab.evaluation.drawing import save_panels
from looplab.evaluation.kept import shown
from looplab.evaluation.panel import Panel
from looplab.evaluation.remarks import remarks, shared
from looplab.evaluation.tables import Part, Table, document
from looplab.training.run_folder.files import write_bytes
from looplab.training.run_folder.run import RunFolder
from looplab.training.run_folder.status import holding

from .claims import (
    Evidence,
    Measured,
    Verdict,
    VerdictName,
    estimate_text,
    find_claim,
    judge,
    line_text,
    verdict_parts,
)
from .command import ExperimentSettings
from .definition import ALL, OF_RUNS, Experiment, Member, described, folder_of
from .many_runs import Plan, Wanted, progress, train_all
from .measuring import Measurement, Request, measure_runs
from .standard_panels import panels

State = Literal["finished", "unfinished", "missing", "failed"]


class MemberResult(TypedDict):
    """A training of an experiment: `label` of its curve, run folder, the words of the command that
    trains it alone, its step of `steps`, and the remarks that its numbers must be read with."""

    label: str
    run: str
    words: list[str]
    seed: int
    step: int
    steps: int
    state: State
    remarks: list[str]


class ExperimentResult(TypedDict):
    """All of it. `panels` are as `Panel.plain` has them; `missing` says, a line each, what was not
    finished when the rest was drawn."""

    experiment: str
    title: str
    source: str
    scale: str
    command: str
    members: list[MemberResult]
    panels: list[dict[str, Any]]
    verdicts: list[Verdict]
    missing: list[str]


KIND = "experiment"
_EXTENSIONS = {"text": "txt", "csv": "csv", "markdown": "md", "latex": "tex"}
_DRAWN_WITHIN = 120.0  # seconds that another process's drawing of the same experiment is waited for
_HEAD = ("experiment", "claim", "quantity", "published", "ours (90 %)", "line", "seeds", "verdict")
_WORDS: dict[VerdictName, tuple[str, str]] = {  # of one claim, and of several
    "holds": ("holds", "hold"),
    "fails": ("fails", "fail"),
    "not settled": ("is not settled", "are not settled"),
    "not measured": ("is not measured", "are not measured"),
}


def perform(settings: ExperimentSettings) -> str:
    """Carry out the experiments and return the text to print: each one's verdicts and files.

    With action=figure nothing is trained. Raises RunError, after all else is written and printed,
    where runs failed; ConfigError as `ExperimentSettings.check`.
    """
    settings.check()
    experiments = settings.experiments
    for name in dict.fromkeys(name for each in experiments for name in each.claims):
        find_claim(name)  # a wrong one is said before anything is trained
    members = {experiment.name: settings.members(experiment) for experiment in experiments}
    failures: dict[str, str] = {}
    if settings.action == "train":
        everyone = [member for each in members.values() for member in each]
        logs = Path(settings.folder) / "experiments" / "logs"
        plan = Plan(logs, settings.jobs, together="auto", shipped=True)
        failures = train_all(_wanted(everyone), plan)
    results, texts = list[ExperimentResult](), list[str]()
    problems = [f"{path}: {reason}" for path, reason in failures.items()]
    for experiment in experiments:
        try:
            result = _finish(experiment, members[experiment.name], settings, failures)
        except RunError as error:
            problems.append(str(error))
            continue
        except Exception as error:  # the other experiments are measured and drawn all the same
            if len(experiments) == 1:
                raise
            if not isinstance(error, ConfigError):
                traceback.print_exc()
            problems.append(f"{experiment.name}: {error or type(error).__name__}")
            continue
        results.append(result)
        texts.append(_text(result, settings.result_folder(experiment), settings))
        if len(experiments) > 1:
            print(f"\n{texts[-1]}", flush=True)
    text = _all_claims(results, settings) if len(experiments) > 1 else "".join(texts)
    if problems:
        if text:
            print(text, flush=True)
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise RunError(f"{problems[0]}{more}")
    return text


def _wanted(members: Sequence[Member]) -> list[Wanted]:
    return [
        Wanted(
            f"{member.config.task.name}, {member.label}, seed {member.config.seed}",
            member.config,
            (member.config.evaluation,),
        )
        for member in members
    ]


def _finish(
    experiment: Experiment,
    members: Sequence[Member],
    settings: ExperimentSettings,
    failures: Mapping[str, str],
) -> ExperimentResult:
    """Measure what is finished, draw, judge and write one experiment's result."""
    everything = [measured(member, failures) for member in members]
    runs = [run for run in everything if run.arrays]
    measurement = _measured(experiment, settings, everything)
    results = [
        member_result(member, run, failures)
        for member, run in zip(members, everything, strict=True)
    ]
    missing = [
        f"{described(member, members)}: {each['state']}, "
        f"{each['step']:,} of {each['steps']:,} steps"
        for member, each in zip(members, results, strict=True)
        if each["state"] != "finished"
    ]
    missing += measurement.missing
    if not runs and not measurement.results and settings.action == "figure":
        raise RunError(
            f"{experiment.name} at scale={settings.scale} has nothing finished to draw: "
            f"{settings.command(experiment)} trains it"
        )
    evidence = Evidence(everything, measurement.results)
    command = settings.command(experiment)
    verdicts = [
        judge(find_claim(name), evidence, scale=settings.scale, command=command)
        for name in experiment.claims
    ]
    drawn = [*(panels(experiment.panels, runs) if runs else ()), *measurement.panels]
    result: ExperimentResult = {
        "experiment": experiment.name,
        "title": experiment.title,
        "source": experiment.source,
        "scale": settings.scale,
        "command": command,
        "members": results,
        "panels": [panel.plain() for panel in drawn],
        "verdicts": verdicts,
        "missing": missing,
    }
    show_result(result, settings.result_folder(experiment), settings.figures)
    return result


def show_result(result: ExperimentResult, folder: Path, figures: FigureSettings) -> None:
    """Write and draw a result, unless the same one is there."""
    finished = [each for each in result["members"] if each["state"] == "finished"]
    count = len(result["missing"])
    lines = [f"{count} of its trainings or measurements not finished"] if count else []
    if others := sum(bool(each["remarks"]) for each in finished):
        lines.append(f"{others} of its {len(finished)} trainings have remarks: see result.json")
    panels = [Panel.read(panel) for panel in result["panels"]]
    content = {**result, "figures": figures.plain()}

    def make() -> list[Path]:
        return save_panels(folder / "figures", panels, figures, result["title"], lines)

    with holding(folder, KIND, _DRAWN_WITHIN):
        shown(folder / "result.json", KIND, content, make)


def _measured(
    experiment: Experiment, settings: ExperimentSettings, runs: Sequence[Measured]
) -> Measurement:
    if experiment.measure == "evaluation":
        return Measurement()
    stored_only = settings.action == "figure"
    at_scale = experiment.at(settings.scale)
    finished = [run for run in runs if run.arrays]
    others = [run.config for run in runs if not run.arrays]
    request = Request(
        at_scale.settings, finished, settings.folder, settings.jobs, stored_only, others
    )
    if experiment.measure in OF_RUNS or experiment.word.endswith(".py"):
        return measure_runs(experiment.measure, request)
    module = import_module(f"{__package__}.{experiment.measure}")
    answer: Measurement = module.measure(request)
    return answer


def _text(result: ExperimentResult, folder: Path, settings: ExperimentSettings) -> str:
    parts: list[Part] = [f"{result['experiment']}: {result['title']} ({result['source']})"]
    if result["verdicts"]:
        parts += ["", *verdict_parts(result["verdicts"])]
    if result["missing"]:
        parts += ["", "not finished:", *(f"  {line}" for line in result["missing"])]
    if lines := _remarks(result):
        parts += ["", "remarks:", *(f"  {line}" for line in lines)]
    parts += ["", f"{folder}: result.json, figures/"]
    return document(parts, settings.tables.format)


def _all_claims(results: Sequence[ExperimentResult], settings: ExperimentSettings) -> str:
    """How many claims of several experiments hold; those of `experiment=all` and
    `all_language` are written as one table."""
    if not results:
        return ""
    parts = claims_parts(results)
    found = {result["experiment"] for result in results}
    if without := [each.name for each in settings.experiments if each.name not in found]:
        parts.insert(1, f"without {', '.join(without)}, which has no result")
    if not settings.is_all:
        return f"\n{parts[0]}"
    name = "claims" if settings.experiment == (ALL,) else "claims_language"
    folder = folder_of(settings.folder, name, settings.scale, settings.seeds, settings.text)
    path = folder.with_name(f"{folder.name}.{_EXTENSIONS[settings.tables.format]}")
    write_bytes(path, f"{document(parts, settings.tables.format)}\n".encode())
    return f"\n{parts[0]}: {path}"


def _remarks(result: ExperimentResult) -> list[str]:
    """What the numbers of the finished trainings must be read with, each remark once, with the
    trainings that it is on."""
    finished = [each for each in result["members"] if each["state"] == "finished"]
    common = set.intersection(*(set(each["words"]) for each in finished)) if finished else set()
    remarks = {}
    for each in finished:
        own = " ".join(word for word in each["words"] if word not in common)
        remarks[f"{each['label']} ({own})" if own else each["label"]] = each["remarks"]
    return shared(remarks)


def claims_parts(results: Sequence[ExperimentResult]) -> list[Part]:
    """The number of claims by verdict, for each paper too, and a table for each paper; a claim of
    several experiments stands in the first that measured it."""
    chosen: dict[str, tuple[str, str, Verdict]] = {}
    for result in results:
        for verdict in result["verdicts"]:
            earlier = chosen.get(verdict["claim"])
            if earlier is None or (earlier[2]["mean"] is None and verdict["mean"] is not None):
                paper = result["source"].partition(", Figure")[0].partition(", Table")[0]
                found = (paper, result["experiment"], verdict)
                chosen[verdict["claim"]] = found
    papers: dict[str, list[tuple[str, Verdict]]] = {}
    for paper, experiment, verdict in chosen.values():
        papers.setdefault(paper, []).append((experiment, verdict))
    parts: list[Part] = [count_text([verdict for _, _, verdict in chosen.values()])]
    for paper, rows in papers.items():
        parts += ["", f"{paper}: {count_text([verdict for _, verdict in rows])}"]
        parts.append(Table(_HEAD, [_row(*row) for row in rows]))
    return parts


def count_text(verdicts: Sequence[Verdict]) -> str:
    """'82 claims: 46 hold, 15 fail, 21 are not settled'."""
    counts = Counter(verdict["verdict"] for verdict in verdicts)
    words = [f"{number} {_WORDS[name][number > 1]}" for name in _WORDS if (number := counts[name])]
    return f"{len(verdicts)} claim{'s' * (len(verdicts) != 1)}: {', '.join(words) or 'none judged'}"


def _row(experiment: str, verdict: Verdict) -> list[str]:
    return [
        experiment,
        verdict["sentence"],
        verdict["quantity"],
        verdict["published"] or "–",
        estimate_text(verdict),
        line_text(verdict),
        str(verdict["seeds"]) if verdict["mean"] is not None else "–",
        verdict["verdict"],
    ]


def measured(member: Member, failures: Mapping[str, str], shipped: bool = True) -> Measured:
    """A member with the errors of its evaluation, measured now where they are not stored; without
    errors where its training is not finished, or failed. `shipped`: as in `progress`."""
    now = progress(member.config, shipped)
    if now.state != "finished" or now.path in failures:
        return Measured(member.label, member.config, now.step, {})
    run = load_run(now.path)
    result, arrays = evaluate_run.measured(run, member.config.evaluation, member.config.device)
    return Measured(
        member.label,
        member.config,
        run.step,
        arrays,
        {"": result["labels"]} | {name: s["labels"] for name, s in result["shifts"].items()},
        str(run.path),
        tuple(remarks(run)),
    )


def member_result(
    member: Member, run: Measured, failures: Mapping[str, str], shipped: bool = True
) -> MemberResult:
    """How far a member is, as plain values; `run` is what `measured` returned for it."""
    now = progress(member.config, shipped)
    state: State = "unfinished" if now.step else "missing"
    lines = list(run.remarks)
    if now.path in failures or now.state == "failed":
        reason = RunFolder(Path(now.path)).status().get("reason", "its training failed")
        state, lines = "failed", [failures.get(now.path) or str(reason)]
    elif now.state == "finished":
        state = "finished"
    return {
        "label": member.label,
        "run": now.path,
        "words": list(member.words),
        "seed": member.config.seed,
        "step": now.step,
        "steps": member.config.training.steps,
        "state": state,
        "remarks": lines,
    }
