"""The training loop: `train` makes the steps of a run, from its last checkpoint to its last step.
One step is `Trainer.update` (step.py).

run = train(Config(task=TaskConfig("linear", dims=3, points=7)))     # or the finished run
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from looplab.conf.checks.config import check_config
from looplab.conf.mistakes import EndedElsewhere, RunError, out_of_memory
from looplab.conf.schema import Config
from looplab.tasks import Prompts

from .assemble import build_curriculum, build_model, build_task
from .device import place
from .logging import Clock, RunLog, Screen, check_trackers, print_description
from .objective import check_targets
from .processes import Processes, joined
from .resume import restore, set_aside
from .run_folder.checkpoint import keep_snapshot, save_checkpoint
from .run_folder.files import write_bytes
from .run_folder.run import Run, run_folder
from .signals import Diverged, Interrupted, deferred_signals
from .step import Totals, Trainer
from .validation import evaluation_prompts, validate


def train(config: Config, again: bool = False) -> Run:
    """Train in the run folder of the configuration, or go on from its last checkpoint.

    A finished run is returned without training. With `again` an existing folder is renamed and
    training starts again, except for an unfinished training by today's code that has its snapshots
    so far, which goes on, to the same end. Raises ConfigError for a mistake in the configuration
    (before anything is written), Interrupted at Ctrl-C or SIGTERM (everything is saved),
    HeldElsewhere where another process holds the folder, RunError where the disk is full, and
    Diverged, which is one, for a loss or gradient that is not finite.

    Under torchrun all its processes call this and train the run together (processes.py): the first
    writes, each returns the run.
    """
    with joined(config) as processes:
        session = Session(config, processes, again)
        with held(session, again):
            if session.begin():
                _make_steps(session)
        return session.run()


def _make_steps(session: Session) -> None:
    """The loop: make the steps that are left. The host waits for the device only to log or save."""
    trainer, training = session.trainer, session.config.training
    screen = Screen(training.steps, session.step, trainer.curriculum, session.writes)
    session.clock.start()
    with deferred_signals() as signals, screen, memory_errors(session.folder.path):
        while session.step < training.steps:
            trainer.update(session.step)
            session.step += 1
            screen.tick()
            signal = session.signal(signals)  # read once: a later one counts for the next step
            pause = signal != 0 or session.step == training.steps
            save = pause or session.step % training.checkpoint_every == 0
            if save or session.logs_now():
                totals = session.record(save, pause)
                screen.write(session.step, trainer.curriculum(session.step - 1), totals)
            if signal:
                raise Interrupted(signal, session.step)


class Session:
    """A run while it is trained: its folder, its trainer, and the `step` after which it stands.

    Of the processes of torchrun the first alone `writes`, to files and to the screen. Raises
    ConfigError for a mistake in the configuration, before anything is written.
    """

    def __init__(
        self, config: Config, processes: Processes | None = None, again: bool = False
    ) -> None:
        check_config(config)
        self.processes, self.writes = processes, processes is None or processes.rank == 0
        if not self.writes:
            config = replace(config, wandb="disabled", tensorboard=False)
        task = build_task(config)
        self.config, self.folder = config, run_folder(config)
        if not again:  # else the files that the run was made with are not today's
            task = replace(task, **task.data.settings_in(self.folder.path))
        check_targets(config.training.targets, task)
        curriculum = build_curriculum(config, task)
        self.placement = place(config.device, config.precision, config.backend)
        check_trackers(config)
        task.data.check(config.task.points)
        model = self.placement.prepare(build_model(config, task))
        self.trainer = Trainer(config, task, curriculum, model, processes=processes)
        self.step = 0
        self.clock = Clock()
        self.log: RunLog | None = None

    @cached_property
    def prompts(self) -> Prompts:
        """The evaluation's prompts, for the errors of the log."""
        settings, points = self.config.evaluation, self.config.task.points
        return evaluation_prompts(self.trainer.task, settings.prompts, points, settings.seed)

    def restore(self) -> None:
        """Load the newest checkpoint, or write that of step 0; the folder's lock must be held."""
        if self.writes:
            self.step = restore(self.folder, self.config, self.trainer, self.placement.backend)
            status = self.folder.status()
            self.clock = Clock(status.get("seconds", 0.0), status.get("cpu_seconds", 0.0))
            done = self.step == self.config.training.steps
            if done and status["state"] != "finished":  # killed just before it was written
                self._write_status("finished")
        if self.processes:
            first = self.processes.from_first(self.step, self.trainer.state())
            if not self.writes:
                self.step = first.step
                self.trainer.load(first)
            self.trainer.share_optimizer()

    def begin(self) -> bool:
        """Return whether there are steps to make; if so, print a description of the run and open
        its log."""
        if self.step == self.config.training.steps:
            return False
        if self.writes:
            print_description(
                self.folder.path, self.config, self.trainer, self.placement.why, self.step
            )
            self._write_status("running")
            self.log = RunLog(self.config, self.folder.path, self.step)
        return True

    def signal(self, noted: Sequence[int]) -> int:
        """The number of the signal at which training stops, of those `noted` here and, under
        torchrun, in the other processes; 0 for none."""
        number = noted[0] if noted else 0
        return self.processes.agree_on(number) if self.processes else number

    def logs_now(self) -> bool:
        """Says whether a record is due after this step."""
        training = self.config.training
        every = training.log_every or min(max(training.steps // 50, 1), 100)
        is_due = self.step % every == 0 or self.step in training.snapshots
        return is_due or self._validates_now()

    def _validates_now(self) -> bool:
        every = self.config.evaluation.every
        return every is not None and self.step % every == 0

    def record(self, save: bool, pause: bool) -> Totals:
        """Log and return the totals since the last record, with the error on the evaluation's
        prompts if it is due; keep a snapshot if one is asked for, and `save` a checkpoint. `pause`:
        training ends here, for now. Raises Diverged where a loss or gradient was not finite."""
        totals = self.trainer.fetch()
        if totals.bad_step is not None:
            raise self._diverged(totals.bad_step)
        is_snapshot = self.step in self.config.training.snapshots
        state = self.trainer.state() if save or is_snapshot else {}
        if self.log is None:  # another process writes
            return totals
        if self._validates_now():
            stage = self.trainer.curriculum(self.step - 1)
            if self.config.loops.sampling != "none":  # else errors would follow the draws
                stage = replace(stage, loops=self.config.loops.b)
            totals.others.update(validate(self.trainer, self.prompts, stage))
        cpu_seconds = self.clock.read()["cpu_seconds"]
        self.log.write(self.step, totals, self.trainer.curriculum(self.step - 1), cpu_seconds)
        if is_snapshot:
            keep_snapshot(self.folder.path, self.step, state)
        if save:
            save_checkpoint(self.folder.checkpoints, self.step, state)
            done = self.step == self.config.training.steps
            self._write_status("finished" if done else "interrupted" if pause else "running")
        return totals

    def run(self) -> Run:
        """The run at its current step, its model in eval mode with the weights for evaluation."""
        if self.trainer.average:
            self.trainer.average.copy_to_model()
        model = self.trainer.model.eval()
        return Run(self.folder.path, self.config, self.trainer.task, model, self.step)

    def close(self) -> None:
        """Close the log, if it was opened."""
        if self.log is not None:
            self.log.close()

    def _diverged(self, step: int) -> RunError:
        """Write the batch of a step that diverged, sampled again from seed and step, and return the
        error that names it.

        The update was skipped on the device, so that the weights are still finite: the residual
        norm is computed with them, the mean over tokens of the last loop's state before its norm.
        """
        if not self.writes:
            return EndedElsewhere("the first process says why")
        trainer = self.trainer
        stage, number = trainer.curriculum(step), step + 1  # as metrics and checkpoints count
        batch: dict[str, Tensor] = {}
        norms = []
        trainer.prepare(step)
        for shard in range(self.config.training.shards):
            prompts = trainer.draw(stage, shard)
            batch |= {f"xs.{shard}": prompts.xs.cpu(), f"ys.{shard}": prompts.ys.cpu()}
            states = trainer.model.unroll(prompts, stage.loops, scale_loops=stage.scale_loops)
            *_, (state, _) = states
            norms.append(state.raw.float().norm(dim=-1).mean())
        path = self.folder.path / f"diverged_{number:08d}.safetensors"
        write_bytes(path, safetensors.torch.save(batch))
        reason = (
            f"step {number} gave a loss or gradient that is not finite ({stage.loops} loops, "
            f"residual norm {float(torch.stack(norms).mean()):.3g}); its update was skipped, its "
            f"batch is in {path}"
        )
        self._write_status("failed", reason=reason)
        return Diverged(reason)

    def _write_status(self, state: str, **facts: Any) -> None:
        self.folder.write_status(state, self.step, **facts, **self.clock.read())


@contextmanager
def held(session: Session, again: bool) -> Iterator[None]:
    """Within this context the folder of the run is locked, and the run at its newest checkpoint.
    With `again` a finished run is set aside before. Raises RunError for what the operating system
    refuses, as where the disk is full."""
    path = session.folder.path
    with ExitStack() as stack:
        if session.writes:
            if again:
                set_aside(session.folder, session.config, session.trainer.task)
            stack.enter_context(session.folder.lock())
            stack.callback(session.close)
        try:
            session.restore()
            yield
        except OSError as error:
            end = "the last checkpoint is intact" if path.exists() else "the folder was removed"
            raise RunError(f"{path}: {error}; {end}") from None


@contextmanager
def memory_errors(path: Path) -> Iterator[None]:
    """Within this context an error that says that memory ran out is a RunError of one line."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        raise RunError(
            f"{path}: out of memory in a step; training.shards=2 or more, training.recompute=true, "
            "a smaller training.batch_size or loops.T need less; the last checkpoint is intact"
        ) from None
