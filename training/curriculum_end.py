"""How far the curriculum of a run comes within its steps: a line before the training, and a remark
with the numbers after it.

shortened([(config, task)])     # ['loops 6 of 12 at the end; curriculum.proportional=true if …']
"""

import sys
from collections.abc import Sequence

from looplab.conf.schema import Config
from looplab.curricula import Schedule
from looplab.tasks import Task

from .assemble import build_curriculum


def behind(config: Config, task: Task, step: int) -> str:
    """The numbers that are below their end in the last of so many steps, as 'dims 2 of 5, loops 4
    of 12'; empty where all have grown."""
    last = max(step - 1, 0)
    parts = []
    for name, schedule in _schedules(config, task).items():
        if (value := schedule(last)) < schedule.end:
            parts.append(f"{name} {value} of {schedule.end}")
    return ", ".join(parts)


def shortened(runs: Sequence[tuple[Config, Task]]) -> list[str]:
    """A line on trainings whose steps end before their curriculum does: of several how many these
    are, and what the one lacks that wants most steps. None for those that make no step."""
    unfinished: list[tuple[int, str]] = []
    for config, task in runs:
        steps = config.training.steps
        if steps and (left := behind(config, task, steps)):
            growths = _schedules(config, task).values()
            # All changes, however late; the last one's step must be made too, hence + 1 below.
            last_change = max(max(growth.changes(sys.maxsize), default=0) for growth in growths)
            unfinished.append((last_change + 1, left))
    if not unfinished:
        return []
    enough, left = max(unfinished)
    share = f"{len(unfinished)} of {len(runs)} runs: " if len(runs) > 1 else ""
    remedy = "curriculum.proportional=true if the run was shortened"
    return [f"{share}{left} at the end; {remedy}, else training.steps={enough}"]


def _schedules(config: Config, task: Task) -> dict[str, Schedule]:
    """What grows with the step, by name; loops that are sampled do not."""
    settings = vars(build_curriculum(config, task)).items()
    return {name: growth for name, growth in settings if isinstance(growth, Schedule)}
