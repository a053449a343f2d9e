"""The log of a run: metrics.jsonl, a progress bar or plain lines, and trackers if configured."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from tqdm import tqdm

from looplab.conf.build import config_to_mapping
from looplab.conf.lazy import optional
from looplab.conf.mistakes import ConfigError, RunError
from looplab.conf.schema import Config
from looplab.curricula import Stage

from .progress import Work, on_terminal
from .run_folder.metrics import Metrics
from .step import Totals

# Without tqdm's remaining time, which assumes that all steps cost the same.
_BAR = "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}, {rate_fmt}{postfix}]"


def check_trackers(config: Config) -> None:
    """Raises ConfigError for a tracker that is not installed, or would ask for a login."""
    if config.wandb != "disabled":
        wandb = optional("wandb", "wandb", "init", "wandb")
        if config.wandb == "online" and not wandb.login(prompt=False, verify=False):
            problem = "cannot be online: no account here (set WANDB_API_KEY, or wandb=offline)"
            raise ConfigError("wandb", problem)
    if config.tensorboard:
        optional("tensorboard", "tensorboard", "__version__", "tensorboard")


class Trackers:
    """The programs that show a run's metrics while it trains, if a configuration asks for them:
    Weights & Biases, and TensorBoard (`tensorboard --logdir runs`). They begin at `step`: scalars
    of later steps in the folder tensorboard/, of a training that was killed, are dropped."""

    def __init__(self, config: Config, folder: Path, step: int) -> None:
        self._wandb: Any = start_wandb(config, folder)
        self._tensorboard: Any = None
        self._folder = folder / "tensorboard" if config.tensorboard else None
        self.rewind(step)

    def log(self, step: int, values: Mapping[str, Any]) -> None:
        """Add the values of a record of metrics.jsonl; TensorBoard gets the finite numbers."""
        if self._wandb is not None:
            self._wandb.log(dict(values), step=step)
        if self._tensorboard is not None:
            for name, value in values.items():
                is_number = isinstance(value, int | float) and math.isfinite(value)
                if name != "step" and is_number:
                    self._tensorboard.add_scalar(name, value, step)
            self._tensorboard.flush()

    def rewind(self, step: int) -> None:
        """Go back to an earlier step."""
        if self._folder is not None:
            from torch.utils.tensorboard import SummaryWriter

            if self._tensorboard is not None:
                self._tensorboard.close()
            self._tensorboard = SummaryWriter(str(self._folder), purge_step=step + 1)

    def close(self) -> None:
        """End their logs."""
        if self._wandb is not None:
            self._wandb.finish()
        if self._tensorboard is not None:
            self._tensorboard.close()


def start_wandb(config: Config, folder: Path) -> Any:
    """The run of wandb, which goes on with that of the same folder; None where it is disabled.
    Raises RunError where it cannot be reached."""
    if config.wandb == "disabled":
        return None
    import wandb

    try:
        return wandb.init(
            project="looplab",
            name=folder.name,
            id=folder.name,
            resume="allow",
            mode=config.wandb,
            dir=folder,
            config=config_to_mapping(config),
        )
    except wandb.errors.Error as error:
        raise RunError(
            f"wandb cannot be reached ({error}); wandb=offline needs no network"
        ) from None


class LogRecord(NamedTuple):
    """The totals since the last record, at `step`, whose last step was of this stage."""

    step: int
    totals: Totals
    stage: Stage
    steps_per_second: float


class RunLog:
    """Writes one record per log interval to metrics.jsonl, and to trackers if configured."""

    def __init__(self, config: Config, folder: Path, step: int) -> None:
        self.metrics = Metrics(folder / "metrics.jsonl")
        for problem in self.metrics.keep_until(step):
            print(f"{self.metrics.path}: {problem}; left out", flush=True)
        self.trackers = Trackers(config, folder, step)
        self.last = time.monotonic(), step

    def close(self) -> None:
        """End the logs of trackers."""
        self.trackers.close()

    def write(self, step: int, totals: Totals, stage: Stage) -> LogRecord:
        """Log the totals since the last record, and the stage; the record."""
        last_time, last_step = self.last
        self.last = time.monotonic(), step
        rate = round((step - last_step) / max(self.last[0] - last_time, 1e-9), 2)
        means = {"loss": totals.loss, "grad_norm": totals.grad_norm, **totals.others}
        values = {"step": step, **means, **asdict(stage), "steps_per_second": rate}
        self.metrics.add(values)
        self.trackers.log(step, values)
        return LogRecord(step, totals, stage, rate)

    def rewind(self, step: int, why: str) -> None:
        """Go back to `step`, and print why."""
        tqdm.write(why, file=sys.stderr if on_terminal() else sys.stdout)
        self.metrics.keep_until(step)
        self.trackers.rewind(step)
        self.last = time.monotonic(), step


class Screen:
    """Shows the progress of a training, if `shown`: a bar on a terminal, else plain lines."""

    def __init__(self, steps: int, step: int, work: Work, shown: bool = True) -> None:
        self.steps, self.work, self.shown = steps, work, shown
        self.terminal = on_terminal()
        self.bar = tqdm(
            total=steps,
            initial=step,
            disable=not (self.terminal and shown),
            dynamic_ncols=True,
            unit="step",
            desc="training",
            bar_format=_BAR,
        )
        self.start_time, self.first_step = time.monotonic(), step

    def __enter__(self) -> Screen:
        return self

    def __exit__(self, *raised: object) -> None:
        self.bar.close()

    def tick(self) -> None:
        """Count one step (the device may still compute it)."""
        self.bar.update()

    def write(self, records: Sequence[LogRecord]) -> None:
        """Show the records of one step, one per run."""
        if not records or not self.shown:
            return
        step, _, stage, rate = records[0]
        losses = sorted({f"{record.totals.loss:.4g}" for record in records}, key=float)
        loss = losses[0] if len(records) == 1 else f"{losses[0]} to {losses[-1]}"
        remaining = tqdm.format_interval(int(self._seconds_left(step)))
        if self.terminal:
            sizes = {"loops": stage.loops, "dims": stage.dims, "points": stage.points}
            self.bar.set_postfix({"loss": loss, **sizes, "left": remaining})
            return
        runs = f"{len(records)} runs  " if len(records) > 1 else ""
        print(
            f"step {step}/{self.steps}  {runs}loss {loss}  loops {stage.loops}  dims {stage.dims}  "
            f"points {stage.points}  {rate:.1f} steps/s  {remaining} left",
            flush=True,
        )

    def _seconds_left(self, step: int) -> float:
        """Remaining seconds of the scheduled work, at the rate since this process began."""
        done = self.work(step) - self.work(self.first_step)
        return (time.monotonic() - self.start_time) * (1 - self.work(step)) / max(done, 1e-9)
