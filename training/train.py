"""The one training loop.

run = train(Config(task=TaskConfig("linear", dims=3, points=7)))     # trains, or finds it done
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from types import FrameType
from typing import Any, NamedTuple

from reloop.conf.checks.config import check_config
from reloop.conf.checks.sizes import check_training_size
from reloop.conf.checksum import checksum_of
from reloop.conf.mistakes import one_line
from reloop.conf.schema import Config

from .assemble import build_curriculum, build_model, build_task
from .device import Placement, place
from .divergence import recover
from .logging import RunLog, check_wandb
from .memory import told_when_full
from .notes import residual_notes
from .objective import check_targets
from .optim.multipliers import describe_groups
from .run_folder.checkpoint import newest_checkpoint, save_checkpoint, saved_steps
from .run_folder.environment import other_code
from .run_folder.metrics import Metrics
from .run_folder.run import Run, RunError, RunFolder, run_folder
from .step import Trainer
from .work import Work


class Interrupted(Exception):
    """Training stopped at a signal, with everything saved."""

    def __init__(self, number: int, step: int) -> None:
        super().__init__(f"saved after step {step}; the same command resumes from there")
        self.exit_code = 128 + number


def train(config: Config, again: bool = False, until: int | None = None) -> Run:
    """Train as configured in the run folder that belongs to the configuration, or go on there.

    A finished run is returned as it is. With `until` training pauses, saved, after that many steps,
    if it has not come further before; the next call goes on. With `again` what is there is set
    aside under another name and training starts again, unless it is an unfinished training by
    today's code: that goes on, to the same end. Raises ConfigError for a mistake in the
    configuration (nothing is written then), Interrupted at Ctrl-C or SIGTERM (everything is saved),
    HeldElsewhere where another process holds the folder, RunError where the disk is full, or
    training diverged.
    """
    check_config(config)
    check_training_size(config)
    task = build_task(config)
    check_targets(config.training.targets, task)
    curriculum = build_curriculum(config, task)
    placement = place(config.device, config.precision, config.backend)
    check_wandb(config.wandb)
    task.check_data()
    folder = run_folder(config)
    model = placement.prepare(build_model(config, task))
    trainer = Trainer(config, task, curriculum, model)
    if again and not _goes_on(folder, config) and (aside := folder.set_aside()):
        print(f"{folder.path}: trained again; what was there is {aside}", flush=True)
    with folder.lock():
        try:
            step = _train_held(folder, trainer, placement, until)
            if trainer.average:
                trainer.average.copy_to_model()
        except OSError as error:
            raise RunError(f"{folder.path}: {error}; the last checkpoint is intact") from None
    return Run(folder.path, config, task, model.eval(), step)


def _goes_on(folder: RunFolder, config: Config) -> bool:
    """Whether an unfinished training by today's code stands in the folder."""
    made_with, steps = folder.made_with(), saved_steps(folder.checkpoints)
    unfinished = bool(steps) and steps[-1] < config.training.steps
    return unfinished and made_with is not None and not other_code(made_with, config)


def _train_held(
    folder: RunFolder, trainer: Trainer, placement: Placement, until: int | None
) -> int:
    """Train in a folder that this process holds, unless that is done; the step it then stands
    at."""
    config, model = trainer.config, trainer.model
    saved = folder.create(config, placement.backend)
    step = _restore(folder, trainer, placement.backend, saved)
    if step == config.training.steps:
        if folder.status()["state"] != "finished":  # killed just before it was written
            folder.write_status("finished", step, **_Clock(folder).read())
        for problem in Metrics(folder.metrics, checksum_of(saved)).problems(step):
            print(f"{folder.metrics}: {problem}; errors do not depend on it", flush=True)
        return step
    end = config.training.steps if until is None else min(until, config.training.steps)
    if step >= end:
        return step
    print(f"{folder.path}: {model.describe()}; {placement.why}", flush=True)
    for note in residual_notes(config, model, trainer.curriculum):
        print(f"  {note}", flush=True)
    if multipliers := describe_groups(config.model):
        print(f"  {multipliers}", flush=True)
    with told_when_full(config, folder.path):
        _train_from(step, end, folder, trainer, saved)
    return end


def _restore(folder: RunFolder, trainer: Trainer, backend: str, saved: Mapping[str, Any]) -> int:
    """Load the newest good checkpoint and say what the user should know; the step it stands at."""
    checkpoint, problems = newest_checkpoint(folder.checkpoints, saved)
    for problem in problems:
        print(problem, flush=True)
    if problems:
        found = (
            f"the one of step {checkpoint.step} is used" if checkpoint else "training starts again"
        )
        print(f"{folder.path}: {found}", flush=True)
    if checkpoint is None:
        folder.note_code(trainer.config, backend, 0)
        save_checkpoint(folder.checkpoints, 0, trainer.state(), saved)
        return 0
    try:
        trainer.load(checkpoint)
    except (RuntimeError, KeyError, ValueError) as error:
        reason = one_line(error)
        raise RunError(f"{folder.path}: its checkpoint does not fit this code: {reason}") from None
    finished = checkpoint.step == trainer.config.training.steps
    if checkpoint.step:
        where = "trained already" if finished else f"resuming from step {checkpoint.step}"
        print(f"{folder.path}: {where}", flush=True)
        for change in folder.changes(trainer.config, backend):
            print(f"  since it began, {change}", flush=True)
    if not finished:
        folder.note_code(trainer.config, backend, checkpoint.step)
    return checkpoint.step


def _train_from(
    step: int, end: int, folder: RunFolder, trainer: Trainer, saved: Mapping[str, Any]
) -> None:
    """Steps `step` to `end`. The device is waited for only where something is logged or saved."""
    training = trainer.config.training
    clock = _Clock(folder)
    folder.write_status("running", step, **clock.read())
    work = Work(trainer.curriculum, training.steps)
    log_of = RunLog(trainer.config, folder.path, step, work, checksum_of(saved))
    with noted_signals() as signals, log_of as log:
        while step < end:
            trainer.update(step)
            step += 1
            log.tick()
            stop = bool(signals)  # read once: a signal from here on is the next step's
            save = stop or step == end or step % training.checkpoint_every == 0
            if not save and step % training.log_every:
                continue
            totals = trainer.fetch()
            if totals.bad_step is not None:
                try:
                    step, why = recover(folder, trainer, totals.bad_step)
                except RunError as error:
                    folder.write_status("failed", step, reason=str(error), **clock.read())
                    raise
                log.rewind(step, why)
                continue
            stage = trainer.curriculum(step - 1)
            log.write(
                {"step": step, "loss": totals.loss, "grad_norm": totals.grad_norm, **asdict(stage)}
            )
            if save:
                save_checkpoint(folder.checkpoints, step, trainer.state(), saved)
                state = "interrupted" if stop or step == end else "running"
                state = "finished" if step == training.steps else state
                folder.write_status(state, step, **clock.read())
            if stop:
                raise Interrupted(signals[0], step)


@contextmanager
def noted_signals() -> Iterator[list[int]]:
    """SIGINT and SIGTERM are only noted, in the list this yields, so that a step is never cut."""
    noted: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        noted.append(number)

    if threading.current_thread() is not threading.main_thread():
        yield noted  # Python delivers signals to the main thread only
        return
    previous = {n: signal.signal(n, note) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield noted
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


class _Spent(NamedTuple):
    seconds: float
    cpu_seconds: float


class _Clock:
    """Time spent on training, over all the processes that worked on a run."""

    def __init__(self, folder: RunFolder) -> None:
        status = folder.status()
        self.before = _Spent(status.get("seconds", 0.0), status.get("cpu_seconds", 0.0))
        self.start = _Spent(time.monotonic(), time.process_time())

    def read(self) -> dict[str, float]:
        now = _Spent(time.monotonic(), time.process_time())
        spent = zip(_Spent._fields, self.before, now, self.start, strict=True)
        return {name: round(before + end - start, 2) for name, before, end, start in spent}
