"""The training loop: `train` makes the steps of a run, from its last checkpoint to its last step.
One step is `Trainer.update` (step.py).

run = train(Config.of("task=linear"))                               # or the finished run
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from looplab.conf.checks.config import check_config
from looplab.conf.checks.reach import check_reach
from looplab.conf.mistakes import ConfigError, EndedElsewhere, RunError, out_of_memory
from looplab.conf.schema import Config, TaskConfig, TrainingConfig
from looplab.tasks import Prompts

from .assemble import build_curriculum, build_model, build_task
from .callbacks import Callback
from .device import place, say_if_threads_spin, shape_of, torch_defaults
from .logging import Clock, RunLog, Screen, check_trackers, print_description
from .objective import check_targets
from .processes import Processes, joined
from .resume import can_go_on, restore, set_aside
from .run_folder.checkpoint import keep_snapshot, save_checkpoint, saved_steps
from .run_folder.files import write_bytes
from .run_folder.metrics import Metrics
from .run_folder.run import Run, check_there, edited_since_loaded, run_folder
from .run_folder.status import STOPPED_EARLY, status_of
from .signals import Diverged, Interrupted, deferred_signals
from .start import begin_with
from .step import Totals, Trainer
from .validation import evaluation_prompts, validate


@torch_defaults()
def train(config: Config, again: bool = False, callbacks: Sequence[Callback] = ()) -> Run:
    """Train in the run folder of the configuration, or go on from its last checkpoint.

    Under torchrun all its processes call this and train the run together (processes.py): the first
    writes, each returns the run.

    Parameters
    ----------
    config : Config
        Every setting; `Config.of("task=linear")` is what the command line trains.
    again : bool
        Rename an existing folder and start again. An unfinished training by today's code that has
        its snapshots so far goes on instead: its end is the same.
    callbacks : sequence of Callback
        What is called with each record of the log, and may end the training early.

    Returns
    -------
    Run
        With its model in eval mode; a finished one is returned without training.

    Raises
    ------
    ConfigError
        For a mistake in the configuration, before anything is written.
    Interrupted
        At Ctrl-C or SIGTERM; everything is saved.
    RunError
        Where another process holds the folder (HeldElsewhere), the disk is full, or a loss or
        gradient is not finite (Diverged).

    References
    ----------
    arXiv 2311.12424, section 4: the loss of the last T of b loops, b growing in training.

    Examples
    --------
    >>> from looplab import Config, train
    >>> small = ["task.dims=2", "task.points=5", "model.n_embd=16", "model.n_head=2"]
    >>> run = train(Config.of("task=linear", "training.steps=2", *small))  # doctest: +ELLIPSIS
    runs/linear-looped-seed0-...
    >>> run.step
    2
    """
    if not hasattr(config, "training"):
        raise ConfigError("config", f"must be a Config: train(Config.of({config!r}))")
    if not config.scale and (config.task, config.training) == (TaskConfig(), TrainingConfig()):
        problem = "has the paper's 500,000 steps, and may not be meant: Config.of('task=linear') is"
        raise ConfigError("config", f"{problem} small, Config.of('scale=paper') the paper's")
    with joined(config) as processes:
        session = Session(config, processes, again, callbacks)
        with held(session, again):
            if session.begin():
                _make_steps(session)
        if session.stopped and session.writes:
            steps = f"step {session.step:,} of {config.training.steps:,}"
            print(f"{session.folder.path}: stopped early at {steps}", flush=True)
        return session.run()


def _make_steps(session: Session) -> None:
    """The loop: make the steps that are left. The host waits for the device only to log or save."""
    trainer = session.trainer
    training = session.config.training
    screen = Screen(training.steps, session.step, trainer.curriculum, session.writes)
    session.clock.start()
    with deferred_signals() as signals, screen:
        while session.step < training.steps and not session.stopped:
            trainer.update(session.step)
            session.step += 1
            screen.bar.update()
            signal = session.signal(signals)  # read once: a later one counts for the next step
            pause = signal != 0 or session.step == training.steps
            save = pause or session.step % training.checkpoint_every == 0
            if save or session.logs_now():
                record = session.record(save, pause)
                if session.writes:
                    screen.write(record)
            if signal:
                raise Interrupted(signal, session.step)


class Session:
    """A run while it is trained: its folder, its trainer, and the `step` after which it stands.

    Of the processes of torchrun the first alone `writes`, to files and to the screen. Raises
    ConfigError for a mistake in the configuration, before anything is written.
    """

    def __init__(
        self,
        config: Config,
        processes: Processes | None,
        again: bool,
        callbacks: Sequence[Callback],
    ) -> None:
        # Composed or read, it has been checked; what `replace` made of it has not.
        check_config(config)
        # A finished run is only loaded, which any machine can.
        if status_of(run_folder(config).path)["state"] != "finished":
            check_reach(config)
        self.callbacks = callbacks
        self.stopped = False
        for callback in callbacks:
            if config.evaluation.every is None and type(callback).stops is not Callback.stops:
                problem = f"must be given: {type(callback).__name__} reads the errors that it logs"
                raise ConfigError("evaluation.every", problem)
        self.processes = processes
        self.writes = processes is None or processes.rank == 0
        if self.writes and (edited := edited_since_loaded(config)):
            remedy = "Config.of loads a plugin again, importlib.reload a module of a notebook"
            print(f"used as it was loaded, but edited since: {', '.join(edited)}; {remedy}")
        if not self.writes:
            config = replace(config, wandb="disabled", tensorboard=False)
        task = build_task(config)
        self.config = config
        self.folder = run_folder(config)
        if not again:  # else the files that the run was made with are not today's
            task = replace(task, **task.data.settings_in(self.folder.path))
        check_targets(config.training.targets, task)
        curriculum = build_curriculum(config, task)
        shape = shape_of(config)
        self.placement = place(config.device, config.precision, config.backend, shape)
        check_trackers(config)
        task.data.check(config.task.points)
        model = build_model(config, task)
        # A run that goes on has its own weights, and its start may be gone.
        saved = bool(saved_steps(self.folder.checkpoints))
        goes_on = can_go_on(self.folder, config, task) if again else saved
        if config.training.start_from and not goes_on:
            begin_with(model, config.training.start_from)
        model = self.placement.prepare(model)
        self.trainer = Trainer(config, task, curriculum, model, processes=processes)
        self.step = 0
        self.clock = Clock()
        self.log: RunLog | None = None

    @cached_property
    def prompts(self) -> Prompts:
        """The evaluation's prompts, for the errors of the log."""
        settings = self.config.evaluation
        points = self.config.task.points
        return evaluation_prompts(self.trainer.task, settings.prompts, points, settings.seed)

    def restore(self) -> None:
        """Load the newest checkpoint, or write that of step 0, and compute as the run began to; the
        folder's lock must be held."""
        today = self.placement
        if self.writes:
            self.step, self.placement = restore(self.folder, self.config, self.trainer, today)
            status = self.folder.status()
            self.clock = Clock(status.get("seconds", 0.0), status.get("cpu_seconds", 0.0))
            done = self.step == self.config.training.steps
            if done and status["state"] != "finished":  # killed just before it was written
                self._write_status("finished")
        if self.processes:
            # Checkpoints are read by one process, so that all go on from the same one.
            first = self.processes.from_first(self.step, self.trainer.state())
            if not self.writes:
                self.step = first.step
                self.trainer.load(first)
            self.trainer.share_optimizer()
            first_placement = self.processes.told(self.placement)
            self.placement = replace(first_placement, device=today.device)
        if self.placement != today:
            self.placement.prepare(self.trainer.model)

    def begin(self) -> bool:
        """Return whether there are steps to make; if so, print a description of the run and open
        its log."""
        if self.step == self.config.training.steps:
            return False
        self.stopped = self._stops()
        if self.stopped:
            if self.writes:
                self._write_status(STOPPED_EARLY)
            return False
        if self.writes:
            if self.placement.device.type == "cpu":
                say_if_threads_spin()
            print_description(self.folder.path, self.trainer, self.placement.why, self.step)
            self._write_status("running")
            self.log = RunLog(self.config, self.folder.path, self.step)
        return True

    def signal(self, noted: Sequence[int]) -> int:
        """The number of the signal at which training stops, of those `noted` here and, under
        torchrun, in the other processes; 0 for none."""
        return self._agreed(noted[0] if noted else 0)

    def _agreed(self, number: int) -> int:
        """The number, under torchrun the largest of all processes."""
        return self.processes.agree_on(number) if self.processes else number

    def logs_now(self) -> bool:
        """Says whether a record is due after this step."""
        training = self.config.training
        # Some 50 records of a short training; of a long one a record every 100 steps.
        every = training.log_every or min(max(training.steps // 50, 1), 100)
        is_due = self.step % every == 0 or self.step in training.snapshots
        return is_due or self._validates_now()

    def _validates_now(self) -> bool:
        every = self.config.evaluation.every
        return every is not None and self.step % every == 0

    def record(self, save: bool, pause: bool) -> dict[str, Any]:
        """Log and return the totals since the last record, with the error on the evaluation's
        prompts if it is due (nothing where another process writes); keep a snapshot if one is asked
        for, and `save` a checkpoint, also where a callback ends the training. `pause`: it ends
        here, for now. Raises Diverged where a loss or gradient was not finite."""
        totals = self.trainer.fetch()
        done = self.step == self.config.training.steps
        if totals.bad_step is not None:
            raise self._diverged(totals.bad_step)
        record = self._log(self.log, totals) if self.log is not None else {}
        self.stopped = not done and self._validates_now() and self._stops()
        is_snapshot = self.step in self.config.training.snapshots
        save = save or self.stopped
        # Before the return below: with zero_stage every process must send its share of the state.
        state = self.trainer.state() if save or is_snapshot else {}
        if self.log is None:
            return record
        if is_snapshot:
            keep_snapshot(self.folder.path, self.step, state)
        if save:
            save_checkpoint(self.folder.checkpoints, self.step, state)
            paused = STOPPED_EARLY if self.stopped else "interrupted" if pause else "running"
            self._write_status("finished" if done else paused)
        return record

    def _log(self, log: RunLog, totals: Totals) -> dict[str, Any]:
        """Write and return a record, with the error if it is due, and show it to the callbacks."""
        # That of the step just made: `step` counts those that are made, the curriculum from 0.
        stage = self.trainer.curriculum(self.step - 1)
        errors: dict[str, float] = {}
        if self._validates_now():
            drawn = self.config.loops.sampling != "none"  # else errors would follow the draws
            at = replace(stage, loops=self.config.loops.b) if drawn else stage
            errors = validate(self.trainer, self.prompts, at)
        totals.others.update(errors)
        record = log.write(self.step, totals, stage, self.clock.read()["cpu_seconds"])
        for callback in self.callbacks:
            callback.on_log(self.step, dict(record))
            if errors:
                callback.on_evaluate(self.step, dict(errors))
        return record

    def _stops(self) -> bool:
        """Says whether a callback ends the training here, by the errors of the log so far; the
        same in every process."""
        if not self.callbacks:
            return False
        records, _ = Metrics(self.folder.metrics).read()
        errors = []
        for record in records:
            for name in ("error", "bits_per_byte"):
                if name in record and record["step"] <= self.step:
                    errors.append(record[name])
        # The first process decides: the others say 0.
        stops = self.writes and any(callback.stops(errors) for callback in self.callbacks)
        return bool(self._agreed(int(stops)))

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
        stage = trainer.curriculum(step)
        number = step + 1  # as metrics and checkpoints count
        batch: dict[str, Tensor] = {}
        norms = []
        # Seeds the generators as for that step, so that `draw` gives its batch again.
        trainer.prepare(step)
        for shard in range(self.config.training.shards):
            prompts = trainer.draw(stage, shard)
            batch |= {f"xs.{shard}": prompts.xs.cpu(), f"ys.{shard}": prompts.ys.cpu()}
            states = trainer.model.unroll(prompts, stage.loops, scale_loops=stage.scale_loops)
            # The last alone: all of them would hold the predictions of every loop.
            state, _ = deque(states, maxlen=1).pop()
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
    With `again` a finished run is set aside before. What the operating system refuses, as where the
    disk is full, and an error that says that memory ran out, is a RunError."""
    path = session.folder.path
    with ExitStack() as stack:
        if session.writes:
            if again:
                set_aside(session.folder, session.config, session.trainer.task)
            # The log is closed before the lock is released: callbacks of a stack run in reverse.
            stack.enter_context(session.folder.lock())
            stack.callback(session.close)
        try:
            session.restore()
            yield
        except OSError as error:
            # Of a deleted folder the cause is said, not that some file in it is missing.
            check_there(path)
            raise RunError(f"{path}: {error}; the last checkpoint is intact") from None
        except (MemoryError, RuntimeError) as error:
            if not out_of_memory(error):
                raise
            check_there(path)
            raise RunError(
                f"{path}: out of memory in a step; training.shards=2 or more, "
                "training.recompute=true, a smaller training.batch_size or loops.T need less; the "
                "last checkpoint is intact"
            ) from None
