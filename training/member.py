"""One run in training: its folder, its trainer, its step and its records."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from looplab.conf.checks.config import check_config
from looplab.conf.mistakes import RunError, one_line
from looplab.conf.schema import Config
from looplab.curricula import Curriculum
from looplab.models import Model
from looplab.models.blocks.parameters import Role

from .assemble import build_curriculum, build_model, build_task
from .device import place
from .logging import RunLog, check_trackers
from .objective import check_targets
from .optim.optimizers import BASE_LAYERS, multiplier
from .run_folder.checkpoint import (
    keep_snapshot,
    newest_checkpoint,
    save_checkpoint,
    saved_steps,
    snapshots_of,
)
from .run_folder.data import keep_data, why_not_resumed
from .run_folder.files import write_bytes
from .run_folder.run import Run, edited_since, other_code, run_folder
from .step import Totals, Trainer

_FORMULAS = {"sqrt": "1/√R", "linear": "1/R", "factored": "λ/(R√U)"}
_NORM_NOTE = (
    "note: this loop norms its stream each time, and so forgets within about three loops: scaled "
    "branches only weaken its block (model=unnormed has none)"
)


class Member:
    """One run in a training of one or more; `step` is its current step, `failure` the error that
    ended it early. `shown`: whether its progress is shown on the screen.

    Raises ConfigError for a mistake in the configuration, before anything is written.
    """

    shown = True
    make_trainer: type[Trainer] = Trainer

    def __init__(self, config: Config) -> None:
        check_config(config)
        task = build_task(config)
        self.config, self.folder = config, run_folder(config)
        task = task.kept_in(self.folder.path)
        check_targets(config.training.targets, task)
        curriculum = build_curriculum(config, task)
        self.placement = place(config.device, config.precision, config.backend)
        check_trackers(config)
        task.check_data(config.task.points)
        model = self.placement.prepare(build_model(config, task))
        self.trainer = self.make_trainer(config, task, curriculum, model)
        self.step = 0
        self.failure: RunError | None = None
        self.log: RunLog | None = None
        # Of the seconds that pass, those of the processor too, the share that counts for this run:
        # an equal one of a joint training, and none while it waits for others.
        self._share, self._since = 0.0, _now()

    @property
    def finished(self) -> bool:
        """Whether all steps are made."""
        return self.step == self.config.training.steps

    def set_aside(self) -> None:
        """Rename the folder if it exists, unless it holds an unfinished training by today's code,
        on today's data, with the snapshots up to its step, which goes on."""
        made_with, steps = self.folder.made_with(), saved_steps(self.folder.checkpoints)
        goes_on = (
            bool(steps)
            and steps[-1] < self.config.training.steps
            and not self._missed_snapshots(steps[-1])
            and not self._data_problem()
            and made_with is not None
            and not other_code(made_with, self.config)
        )
        if not goes_on and (backup := self.folder.set_aside()):
            print(f"{self.folder.path}: trained again; the old run is {backup}", flush=True)

    def restore(self) -> None:
        """Create the folder or load its newest intact checkpoint, and print notes for the user.
        The caller must hold the folder's lock."""
        self.folder.create(self.config, self.placement.backend)
        status = self.folder.status()
        self._spent = [status.get(name, 0.0) for name in ("seconds", "cpu_seconds")]
        self.step = self._load()
        if self.step and not self.finished and (problem := self._data_problem()):
            reason = f"{problem}, so that it cannot go on; again=true trains again"
            raise RunError(f"{self.folder.path}: {reason}")
        missed = self._missed_snapshots(self.step)
        if self.step in missed:
            self._keep_snapshot()
            missed.remove(self.step)
        if missed:
            steps = f"step{'s' * (len(missed) > 1)} {', '.join(map(str, missed))}"
            print(
                f"{self.folder.path}: no snapshot of {steps}: it was past them when "
                "training.snapshots asked (again=true trains again)",
                flush=True,
            )
        if self.finished and status["state"] != "finished":  # killed just before it was written
            self._write_status("finished")

    def begin(self) -> None:
        """Print a description of the run, and open the log."""
        config, model = self.config, self.trainer.model
        print(f"{self.folder.path}: {model.describe()}; {self.placement.why}", flush=True)
        if data := self.trainer.task.describe_data():
            print(f"  {data}", flush=True)
        if not self.step and (edited := edited_since(config, self.folder.path)):
            print(f"  {edited}", flush=True)
        for note in residual_notes(config, model, self.trainer.curriculum):
            print(f"  {note}", flush=True)
        self._write_status("running")
        self.log = RunLog(config, self.folder.path, self.step)

    @contextmanager
    def timed(self, share: float) -> Iterator[None]:
        """Within this context that share of the time counts for the run."""
        assert self.log is not None
        self.log.last = time.monotonic(), self.step
        self._share, self._since = share, _now()
        yield
        self._count_time()
        self._share = 0.0

    def stop_signal(self, noted: Sequence[int]) -> int:
        """The number of the signal at which training stops after this step, of those `noted` so
        far; 0 for none."""
        return noted[0] if noted else 0

    def record(self, step: int, save: bool, interrupted: bool) -> Totals | None:
        """Log the totals since the last record, at `step`, and `save` a checkpoint; the totals.
        None where training diverged: `failure` is then set."""
        assert self.log is not None
        totals = self.trainer.fetch()
        if totals.bad_step is not None:
            self.step, self.failure = step, RunError(self._diverged(totals.bad_step))
            self._write_status("failed", reason=str(self.failure))
            return None
        self.step = step
        self._count_time()
        self.log.write(step, totals, self.trainer.curriculum(step - 1), self._spent[1])
        self._keep_snapshot()
        if save:
            tensors = self.trainer.state()
            save_checkpoint(self.folder.checkpoints, step, tensors)
            unfinished = "interrupted" if interrupted else "running"
            self._write_status("finished" if self.finished else unfinished)
        return totals

    def run(self) -> Run:
        """The run at its current step, its model in eval mode with the weights for evaluation."""
        if self.trainer.average:
            self.trainer.average.copy_to_model()
        path, model = self.folder.path, self.trainer.model.eval()
        return Run(path, self.config, self.trainer.task, model, self.step)

    def close(self) -> None:
        """Close the log, if it was opened."""
        if self.log is not None:
            self.log.close()

    def _load(self) -> int:
        """Load the newest intact checkpoint; its step."""
        folder, backend = self.folder, self.placement.backend
        checkpoint, problems = newest_checkpoint(folder.checkpoints)
        for problem in problems:
            print(problem, flush=True)
        if problems:
            choice = f"the one of step {checkpoint.step} is used" if checkpoint else ""
            print(f"{folder.path}: {choice or 'training starts again'}", flush=True)
        if checkpoint is None or not checkpoint.step:
            keep_data(folder.path, self.trainer.task)
        if checkpoint is None:
            folder.note_code(self.config, backend, 0)
            self._keep_snapshot()  # before the checkpoint, from which training goes on
            save_checkpoint(folder.checkpoints, 0, self.trainer.state())
            return 0
        try:
            self.trainer.load(checkpoint)
        except (RuntimeError, KeyError, ValueError) as error:
            reason = f"its checkpoint does not fit this code: {one_line(error)}"
            raise RunError(f"{folder.path}: {reason}") from None
        finished = checkpoint.step == self.config.training.steps
        if checkpoint.step:
            state = "trained already" if finished else f"resuming from step {checkpoint.step}"
            print(f"{folder.path}: {state}", flush=True)
            for change in folder.changes(self.config, backend):
                print(f"  since it began, {change}", flush=True)
        if not finished:
            folder.note_code(self.config, backend, checkpoint.step)
        return checkpoint.step

    def _data_problem(self) -> str:
        return why_not_resumed(self.folder.path, self.config, self.trainer.task)

    def _keep_snapshot(self) -> None:
        """Keep the weights, if a snapshot of the current step is asked for."""
        if self.step in self.config.training.snapshots:
            keep_snapshot(self.folder.path, self.step, self.trainer.state())

    def _missed_snapshots(self, step: int) -> list[int]:
        """The steps up to this one whose snapshots are asked for, and missing."""
        wanted = {each for each in self.config.training.snapshots if each <= step}
        return sorted(wanted - snapshots_of(self.folder.path).keys())

    def _diverged(self, step: int) -> str:
        """Write the batch that diverged (sampled again from seed and step), and return one line.

        The update was skipped on the device, so that the weights are still finite: the residual
        norm is computed with them, the mean over tokens of the last loop's state before its norm.
        """
        trainer = self.trainer
        stage, number = trainer.curriculum(step), step + 1  # as metrics and checkpoints count
        batch: dict[str, Tensor] = {}
        norms = []
        for shard in range(self.config.training.shards):
            prompts = trainer.prompts(step, shard)
            batch |= {f"xs.{shard}": prompts.xs.cpu(), f"ys.{shard}": prompts.ys.cpu()}
            states = trainer.model.unroll(prompts, stage.loops, scale_loops=stage.scale_loops)
            *_, (state, _) = states
            norms.append(state.raw.float().norm(dim=-1).mean())
        path = self.folder.path / f"diverged_{number:08d}.safetensors"
        write_bytes(path, safetensors.torch.save(batch))
        norm = float(torch.stack(norms).mean())
        return (
            f"step {number} gave a loss or gradient that is not finite ({stage.loops} loops, "
            f"residual norm {norm:.3g}); its update was skipped, its batch is in {path}"
        )

    def _write_status(self, state: str, **facts: Any) -> None:
        self._count_time()
        seconds, cpu_seconds = (round(spent, 2) for spent in self._spent)
        self.folder.write_status(
            state, self.step, **facts, seconds=seconds, cpu_seconds=cpu_seconds
        )

    def _count_time(self) -> None:
        """Add this run's share of the seconds that passed since the last call."""
        since, self._since = self._since, _now()
        for index, (start, end) in enumerate(zip(since, self._since, strict=True)):
            self._spent[index] += self._share * (end - start)


def _now() -> tuple[float, float]:
    return time.monotonic(), time.process_time()


def residual_notes(config: Config, model: Model, curriculum: Curriculum) -> list[str]:
    """Lines with the factor of residual branches, whether it follows the loops, where it is of no
    use, and the multipliers of the optimiser. Empty without residual scaling."""
    shape = config.model
    if shape.residual_scaling == "none":
        return []
    formula, scale = _FORMULAS[shape.residual_scaling], f"{model.residual_scale():.4g}"
    first, notes = curriculum(0).scale_loops, list[str]()
    if shape.family == "standard":
        formula += f", {shape.n_layer} layers of their own)"
    else:
        formula += f", R = {model.spec.loops})"
        if config.loops.sampling != "none":
            formula += ", however many loops a step draws"
        elif first != model.spec.loops:
            start = f"{model.residual_scale(first):.4g}"
            formula += f"; in training R is the step's loops, from x {start} at R = {first} on"
        if shape.norm != "at_readout" and not shape.lanes:
            notes.append(_NORM_NOTE)
    if (factor := multiplier(shape, Role("matrix", (1,), layer=0))) != 1:
        notes.append(
            f"rates x {factor:.3g} and epsilon x {factor:.3g} in the looped stack "
            f"(the root of {BASE_LAYERS} / {shape.n_layer} layers)"
        )
    return [f"residual branches x {scale} ({formula}", *notes]
