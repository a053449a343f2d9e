"""The verdict on a claim, from evidence.

verdict = judge(find_claim("fig02_last_query"), evidence, scale="small", command="python run.py …")
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from looplab.evaluation.measured import Measured
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
    left_out = evidence.unfinished
    usable = replace(evidence, left_out=left_out, asked=[])
    wants_paper_scale = claim.paper_scale if scale != "paper" else ""
    try:
        if wants_paper_scale:
            raise NotMeasured(wants_paper_scale)
        estimate = claim.estimate(usable)
        runs = [member for member in usable.asked if member not in left_out]
        known = [] if estimate.steps is None else [estimate.steps]
        steps = min([*known, *(member.step for member in runs)], default=0)  # the fewest
        if steps == 0 and claim.published_steps != 0:
            raise NotMeasured("no trained run")
        if not math.isfinite(estimate.mean) or any(map(math.isnan, estimate[:3])):
            raise NotMeasured(f"{claim.quantity}: {estimate.mean:g}, an error is not finite")
        verdict, notes = decide(claim, estimate), [_size_note(claim, estimate, runs, steps, scale)]
        if verdict == "not settled":
            covered = [end for end in ends_of(claim.line) if estimate.low <= end <= estimate.high]
            nearest_end = min(covered, key=lambda end: abs(end - estimate.mean))
            notes.insert(0, seeds_note(nearest_end, estimate))
        if claim.line_set == "after":
            notes.append("the line was set after the result was known")
    except NotMeasured as reason:
        estimate, runs, steps = Estimate(math.nan, math.nan, math.nan, 0), [], 0
        verdict, notes = "paper scale" if wants_paper_scale else "not measured", [str(reason)]
    lost = [f"{_named(each)} ({left_out[each]})" for each in usable.asked if each in left_out]
    notes += [estimate.note, f"left out: {', '.join(lost)}" if lost else ""]
    remarks: dict[str, list[str]] = {}  # of one label and seed (several tasks) together
    for member in runs:
        lines = remarks.setdefault(_named(member), [])
        lines += [line for line in member.remarks if line not in lines]
    notes += shared(remarks)
    mean, low, high = map(finite, estimate[:3])
    return Verdict(
        **part_of(Said, claim),
        claim=claim.name,
        mean=mean,
        low=low,
        high=high,
        seeds=estimate.seeds,
        steps=steps,
        scale=scale,
        verdict=verdict,
        note="; ".join(filter(None, notes)),
        command=command,
    )


def _size_note(
    claim: Claim, estimate: Estimate, runs: Sequence[Measured], steps: int, scale: str
) -> str:
    """'at small scale (d = 5, 2,000 steps; published: d = 20, 500,000 steps)', with the dimensions
    of inputs, for texts the width of models; empty for the published scale."""
    configs = [member.config for member in runs]
    is_text = any(config.task.is_text for config in configs)
    sizes = sorted({each.model.n_embd if is_text else each.task.dims for each in configs})
    own = f"{'width' if is_text else 'd'} = {', '.join(map(str, sizes))}" if sizes else ""
    both = (estimate.size or own, steps), (claim.published_size, claim.published_steps)
    ours, published = (
        ", ".join(filter(None, [size, "" if number is None else f"{number:,} steps"]))
        for size, number in both
    )
    if ours == published and (scale == "paper" or not steps):
        return ""
    return f"at {scale} scale ({ours}" + (f"; published: {published})" if published else ")")


def _named(member: Measured) -> str:
    return f"{member.label}, seed {member.config.seed}"
