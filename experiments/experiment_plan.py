"""`action=plan`: the runs of experiments, how far each is, and the processor time still to come."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from looplab.training.jobs import processes_for
from looplab.training.run_folder.run import run_folder

from .command import ExperimentSettings
from .definition import Experiment, Member, described
from .many_runs import Estimates, progress


def plan(settings: ExperimentSettings) -> str:
    """A table of every experiment's runs; each run's time is counted once, in the first experiment
    that wants it. Nothing is trained; a step of each shape may be measured."""
    experiments = settings.experiments
    members = {experiment.name: settings.members(experiment) for experiment in experiments}
    unique: dict[Path, Member] = {}
    for each in members.values():
        for member in each:
            unique.setdefault(run_folder(member.config).path, member)
    configs = [member.config for member in unique.values()]
    say = partial(print, file=sys.stderr, flush=True)
    left = dict(zip(unique, Estimates(configs, say).left(), strict=True))
    lines, seen = [], set[Path]()
    for experiment in experiments:
        lines += ["", *_table(experiment, members[experiment.name], left, seen)]
    total, number = sum(left.values()), sum(seconds > 0 for seconds in left.values())
    processes = processes_for(number, settings.jobs, configs[0]) if configs else 1
    summary = (
        f"{number} of {len(unique)} runs are to be trained: about {_time(total)} of processor time"
    )
    if processes > 1 and total:
        summary += f", {_time(total / processes)} with {processes} at once"
    also = [each.name for each in experiments if each.measure != "evaluation"]
    if also:
        summary += f"; not counted: evaluations, and the measurements of {', '.join(also)}"
    return "\n".join([*lines[1:], "", summary])


def _table(
    experiment: Experiment, members: Sequence[Member], left: dict[Path, float], seen: set[Path]
) -> list[str]:
    lines = [f"{experiment.name}: {experiment.title} ({experiment.source})"]
    for member in members:
        path = run_folder(member.config).path
        now = progress(member.config)
        state = now.state
        if state not in ("finished", "new"):
            state += f", {now.step:,} of {member.config.training.steps:,} steps"
        if now.path.startswith("shipped/"):
            state = f"finished: {now.path}"
        to_come = "" if not left[path] else _time(left[path])
        if path in seen:
            to_come = "as above" if to_come else ""
        seen.add(path)
        lines.append(f"  {described(member, members):60} {state:24} {to_come}".rstrip())
    return lines


def _time(seconds: float) -> str:
    """'40 s', '12 min' or '3.4 h'."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
