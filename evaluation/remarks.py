"""Remarks that a run's numbers must be read with: unfinished training, an unfinished curriculum, or
code that has changed since.

for line in remarks(run): print(line)
"""

from collections.abc import Mapping, Sequence

from looplab.conf.schema import Config
from looplab.tasks import Task
from looplab.tasks.trial import divisor_remark
from looplab.training.curriculum_end import behind
from looplab.training.run_folder.data import changed_data
from looplab.training.run_folder.files import list_names
from looplab.training.run_folder.run import Run, RunFolder, other_code
from looplab.training.run_folder.sources import OTHER_CODE
from looplab.training.start import has_new_weights


def remarks(run: Run) -> list[str]:
    """Lines such as 'training unfinished: 400 of 7,000 steps', 'curriculum unfinished: dims 2 of 5,
    loops 4 of 12', 'trained by other code: tasks/linear.py differs'; empty for a finished run of
    the current code."""
    lines = unfinished(run.config, run.task, run.step)
    again = "(again=true trains again)"
    if parts := changed_data(run.path, run.config, run.task):
        lines.append(f"trained on other data: {', '.join(parts)} changed {again}")
    start = run.config.training.start_from
    if has_new_weights(run.path, start):
        lines.append(f"began with other weights than {start} has now {again}")
    if files := other_code(RunFolder(run.path).made_with(), run.config):
        verb = "differs" if len(files) == 1 else "differ"
        lines.append(f"{OTHER_CODE}{list_names(files)} {verb} now {again}")
    if run.config.loops.halt == "act":
        lines.append(
            "evaluations read each loop's own prediction, not the mean over loops that "
            "loops.halt=act trains"
        )
    lines += divisor_remark(run.task)
    return lines


def unfinished(config: Config, task: Task, step: int) -> list[str]:
    """The remarks on a run of `step` steps that say what its training lacks. They name the numbers
    that had not reached their end in the curriculum of its last step."""
    lines = []
    steps = config.training.steps
    if step != steps:
        lines.append(f"training unfinished: {step:,} of {steps:,} steps")
    if left := behind(config, task, step):
        lines.append(f"curriculum unfinished: {left}")
    return lines


def shared(remarks_of: Mapping[str, Sequence[str]]) -> list[str]:
    """The remarks on several runs, each once, with the names of its runs."""
    names: dict[str, list[str]] = {}
    for name, lines in remarks_of.items():
        for line in lines:
            names.setdefault(line, []).append(name)
    lines = []
    for line, run_names in names.items():
        are_all = len(run_names) == len(remarks_of) > 1
        lines.append(f"{'all' if are_all else ', '.join(run_names)}: {line}")
    return lines
