"""A training begins, or goes on from the newest intact checkpoint of its folder, which is set aside
where the run is to be trained again.

step, placement = restore(folder, config, trainer, placement)    # the caller holds the lock
"""

from pathlib import Path

from looplab.conf.mistakes import RunError, one_line
from looplab.conf.schema import Config
from looplab.tasks import Task

from .device import Placement
from .run_folder.checkpoint import (
    Checkpoint,
    keep_snapshot,
    newest_checkpoint,
    save_checkpoint,
    saved_steps,
    snapshots_of,
)
from .run_folder.data import keep_data, why_not_resumed
from .run_folder.run import RunFolder, other_code
from .start import keep_start
from .step import Trainer


def set_aside(folder: RunFolder, config: Config, task: Task) -> None:
    """Rename the folder if it exists, unless it holds an unfinished training by today's code, on
    today's data, with the snapshots up to its step: that one goes on, to the same end."""
    if can_go_on(folder, config, task):
        return
    backup = folder.set_aside()
    if backup:
        print(f"{folder.path}: trained again; the old run is {backup}", flush=True)


def can_go_on(folder: RunFolder, config: Config, task: Task) -> bool:
    """Says whether the folder holds an unfinished training that can come to the same end."""
    steps = saved_steps(folder.checkpoints)
    made_with = folder.made_with()
    if not steps or steps[-1] >= config.training.steps or made_with is None:
        return False
    if _missing_snapshots(folder.path, config, steps[-1]) or other_code(made_with, config):
        return False
    return not why_not_resumed(folder.path, config, task)


def restore(
    folder: RunFolder, config: Config, trainer: Trainer, placement: Placement
) -> tuple[int, Placement]:
    """Create the folder with a checkpoint of step 0, or load its newest intact one; returns the
    step, and the placement that it began with. Prints what the user must know. The caller holds the
    folder's lock.

    Raises RunError for a folder of another run, a checkpoint that does not fit, and data that have
    changed since an unfinished training began.
    """
    folder.create(config, placement.backend, placement.choice)
    checkpoint = _newest(folder)
    step = checkpoint.step if checkpoint else 0
    today = placement
    if step:  # before the first steps nothing depends on the choice of that day
        placement = today.as_begun(folder.made_with() or {}, config.backend)
    # Also at a checkpoint of step 0: nothing was learned from the data of that day yet.
    if not step:
        keep_data(folder.path, trainer.task)
        keep_start(folder.path, config.training.start_from)
    if checkpoint:
        try:
            trainer.load(checkpoint)
        except (RuntimeError, KeyError, ValueError) as error:
            reason = f"its checkpoint does not fit this code: {one_line(error)}"
            raise RunError(f"{folder.path}: {reason}; again=true trains again") from None
    finished = step == config.training.steps
    if step:
        state = "trained already" if finished else f"resuming from step {step}"
        print(f"{folder.path}: {state}", flush=True)
        for change in folder.changes(config, placement.backend):
            print(f"  since it began, {change}", flush=True)
        if placement != today and not finished:
            print("  it goes on by the kernels' variants that it began with", flush=True)
        if not finished and (problem := why_not_resumed(folder.path, config, trainer.task)):
            reason = f"{problem}, so that it cannot go on; again=true trains again"
            raise RunError(f"{folder.path}: {reason}")
    # A finished run keeps the record of the code that made it.
    if not checkpoint or not finished:
        folder.note_code(config, placement.backend, step, placement.choice)
    if step in _missing_snapshots(folder.path, config, step):
        keep_snapshot(folder.path, step, trainer.state())
    if not checkpoint:  # after the snapshot: from this one on training goes on
        save_checkpoint(folder.checkpoints, 0, trainer.state())
    return step, placement


def _newest(folder: RunFolder) -> Checkpoint | None:
    """The newest checkpoint that can be read; prints what is wrong with newer ones."""
    checkpoint, problems = newest_checkpoint(folder.checkpoints)
    for problem in problems:
        print(problem, flush=True)
    if problems:
        choice = f"the one of step {checkpoint.step} is used" if checkpoint else ""
        print(f"{folder.path}: {choice or 'training starts again'}", flush=True)
    return checkpoint


def _missing_snapshots(path: Path, config: Config, step: int) -> set[int]:
    """The steps up to this one of which `training.snapshots` asks for a snapshot and none is
    there."""
    asked = {snapshot for snapshot in config.training.snapshots if snapshot <= step}
    return asked - snapshots_of(path).keys()
