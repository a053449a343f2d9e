"""How far the curriculum of a run comes within its steps: a line before the training, and a remark
with the numbers after it.

shortened(config, build_task(config))     # 'loops 6 of 12 at the end; curriculum.proportional=…'
"""

import sys

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


def shortened(config: Config, task: Task) -> str:
    """A line on a training whose steps end before its curriculum does; empty for any other, and for
    none."""
    steps = config.training.steps
    left = behind(config, task, steps)
    if not steps or not left:
        return ""
    remedy = "curriculum.proportional=true if the run was shortened"
    return f"{left} at the end; {remedy}, else training.steps={steps_to_end(config, task)}"


def steps_to_end(config: Config, task: Task) -> int:
    """The least steps of which the last one sees all dims, points and loops."""
    changes = [0]
    for schedule in _schedules(config, task).values():
        changes += schedule.changes(sys.maxsize)
    return 1 + max(changes)


def _schedules(config: Config, task: Task) -> dict[str, Schedule]:
    """What grows with the step, by name; loops that are sampled do not."""
    curriculum = build_curriculum(config, task)
    numbers = {"dims": curriculum.dims, "points": curriculum.points, "loops": curriculum.loops}
    return {name: each for name, each in numbers.items() if isinstance(each, Schedule)}
