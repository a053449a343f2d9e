"""The verdict on a claim, from evidence.

verdict = judge(find_claim("fig02_last_query"), evidence, scale="small", command="python run.py …")
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from looplab.evaluation.evaluated_run import EvaluatedRun
from looplab.evaluation.plain import part_of
from looplab.evaluation.remarks import shared
from looplab.evaluation.statistics import Estimate, NotMeasured, finite, seeds_note
from looplab.evaluation.verdict import Said, Verdict
from looplab.show.verdicts import ends_of

from .claims import Claim, decide
from .evidence import Evidence


def judge(claim: Claim, evidence: Evidence, *, scale: str, command: str) -> Verdict:
    """The verdict, from finished runs that learned something: those without training, before their
    last step, before the end of their curriculum or no better than predicting zero are left out,
    and the note says so.

    The claim is not measured if the evidence lacks what it needs, or the estimate is not a number.
    The note says, too, where the scale is not the published one.
    """
    about = {**part_of(Said, claim), "claim": claim.name, "scale": scale, "command": command}
    if claim.paper_scale and scale != "paper":
        return Verdict(**about, verdict="paper scale", note=claim.paper_scale)
    usable = replace(evidence, left_out=evidence.unfinished, asked=[])
    try:
        estimate = claim.estimate(usable)
        runs = [member for member in usable.asked if member not in usable.left_out]
        steps = _fewest_steps(estimate, runs)
        _check(claim, estimate, steps)
    except NotMeasured as reason:
        note = _joined([str(reason), _left_out(usable)])
        return Verdict(**about, verdict="not measured", note=note)
    verdict = decide(claim, estimate)
    notes = [_size_note(claim, estimate, runs, steps, scale)]
    if verdict == "not settled":
        notes.insert(0, seeds_note(_nearest_end(claim, estimate), estimate))
    if claim.line_set == "after":
        notes.append("the line was set after the result was known")
    notes += [estimate.note, _left_out(usable)]
    notes += _remarks(runs)
    return Verdict(
        **about,
        verdict=verdict,
        mean=finite(estimate.mean),
        low=finite(estimate.low),
        high=finite(estimate.high),
        seeds=estimate.seeds,
        steps=steps,
        note=_joined(notes),
    )


def _fewest_steps(estimate: Estimate, runs: Sequence[EvaluatedRun]) -> int:
    """The fewest steps of what the estimate rests on; 0 for nothing."""
    steps = [member.step for member in runs]
    if estimate.steps is not None:
        steps.append(estimate.steps)
    return min(steps, default=0)


def _check(claim: Claim, estimate: Estimate, steps: int) -> None:
    """Raises NotMeasured for an estimate of no training, or one that is not a number."""
    if steps == 0 and claim.published_steps != 0:
        raise NotMeasured("no trained run")
    has_interval = not (math.isnan(estimate.low) or math.isnan(estimate.high))
    if not math.isfinite(estimate.mean) or not has_interval:
        raise NotMeasured(f"{claim.quantity}: {estimate.mean:g}, an error is not finite")


def _nearest_end(claim: Claim, estimate: Estimate) -> float:
    """The line that the interval covers; of a band's ends the one that is nearer to the mean."""
    covered = [end for end in ends_of(claim.line) if estimate.low <= end <= estimate.high]
    return min(covered, key=lambda end: abs(end - estimate.mean))


def _left_out(evidence: Evidence) -> str:
    """'left out: looped, seed 2 (untrained)', of the runs that the claim asked for."""
    why = evidence.left_out
    lost = [f"{_named(member)} ({why[member]})" for member in evidence.asked if member in why]
    return f"left out: {', '.join(lost)}" if lost else ""


def _remarks(runs: Sequence[EvaluatedRun]) -> list[str]:
    """The remarks on the runs; those of one label and seed (several tasks) together."""
    by_run: dict[str, list[str]] = {}
    for member in runs:
        lines = by_run.setdefault(_named(member), [])
        lines += [line for line in member.remarks if line not in lines]
    return shared(by_run)


def _size_note(
    claim: Claim, estimate: Estimate, runs: Sequence[EvaluatedRun], steps: int, scale: str
) -> str:
    """'at small scale (d = 5, 2,000 steps; published: d = 20, 500,000 steps)'; empty for the
    published scale."""
    ours = _size_and_steps(estimate.size or _size(runs), steps)
    published = _size_and_steps(claim.published_size, claim.published_steps)
    if ours == published and (scale == "paper" or not steps):
        return ""
    if published:
        return f"at {scale} scale ({ours}; published: {published})"
    return f"at {scale} scale ({ours})"


def _size(runs: Sequence[EvaluatedRun]) -> str:
    """The dimensions of inputs, 'd = 3, 5', for texts the width of models; empty without runs."""
    configs = [member.config for member in runs]
    if any(config.task.is_text for config in configs):
        name = "width"
        sizes = {config.model.n_embd for config in configs}
    else:
        name = "d"
        sizes = {config.task.dims for config in configs}
    return f"{name} = {', '.join(map(str, sorted(sizes)))}" if sizes else ""


def _size_and_steps(size: str, steps: int | None) -> str:
    parts = [size]
    if steps is not None:
        parts.append(f"{steps:,} steps")
    return ", ".join(filter(None, parts))


def _named(member: EvaluatedRun) -> str:
    return f"{member.label}, seed {member.config.seed}"


def _joined(notes: Iterable[str]) -> str:
    return "; ".join(filter(None, notes))
