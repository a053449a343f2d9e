"""The finished runs of an experiment with their errors prompt by prompt."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from reloop.evaluation import evaluate_run, load_run
from reloop.evaluation.remarks import remarks
from reloop.training.run_folder.run import RunFolder

from ..claims.claim import Measured
from ..many_runs import progress
from .members import Member
from .results import MemberResult, State


def measured(member: Member) -> Measured:
    """A member with the errors of its evaluation, measured now where they are not stored; without
    errors where its training is not finished."""
    now = progress(member.config)
    if now.state != "finished":
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


def member_result(member: Member, run: Measured, failures: Mapping[str, str]) -> MemberResult:
    """How far a member is, as plain values; `run` is what `measured` returned for it."""
    now = progress(member.config)
    state: State = "missing"
    if now.path in failures or now.state == "failed":
        state = "failed"
    elif now.state == "finished":
        state = "finished"
    elif now.step:
        state = "unfinished"
    lines = list(run.remarks)
    if state == "failed":
        reason = RunFolder(Path(now.path)).status().get("reason", "its training failed")
        lines = [failures.get(now.path) or str(reason)]
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
