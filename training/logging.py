"""The prints and the log of a training: a description of the run, metrics.jsonl and trackers, a
progress bar or plain lines, and the time that it takes."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tqdm import tqdm

from looplab.conf.build import config_to_mapping
from looplab.conf.lazy import optional
from looplab.conf.mistakes import ConfigError, RunError
from looplab.conf.schema import Config
from looplab.curricula import Curriculum, Stage
from looplab.tasks.trial import divisor_remark

from .curriculum_end import shortened
from .progress import Work, bar_file, on_terminal
from .run_folder.metrics import Metrics
from .run_folder.run import edited_since
from .step import Totals, Trainer

# Without tqdm's remaining time, which assumes that all steps cost the same.
_BAR = "{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{rate_fmt}{postfix}]"
_BESIDE = 40  # characters of a bar without its postfix


class Clock:
    """The seconds that a run has taken, on the wall and of the processor: those of earlier
    processes, and from `start` on those of this one."""

    def __init__(self, seconds: float = 0.0, cpu_seconds: float = 0.0) -> None:
        self._spent = seconds, cpu_seconds
        self._start: tuple[float, float] | None = None

    def start(self) -> None:
        """Count from now on."""
        self._start = time.monotonic(), time.process_time()

    def read(self) -> dict[str, float]:
        """`seconds` and `cpu_seconds` until now."""
        now = time.monotonic(), time.process_time()
        start = self._start or now
        wall, cpu = (
            spent + end - begin for spent, begin, end in zip(self._spent, start, now, strict=True)
        )
        return {"seconds": round(wall, 2), "cpu_seconds": round(cpu, 2)}


def print_description(path: Path, trainer: Trainer, why: str, step: int) -> None:
    """Print what is trained in the folder `path` from `step` on, and `why` on this device."""
    print(f"{path}: {trainer.model.describe()}; {why}", flush=True)
    config = trainer.config
    task = trainer.task
    lines = list(shortened([(config, task)]))
    lines.append(task.data.describe(config.task.points))
    if not step:
        lines.append(edited_since(config, path))
    lines += divisor_remark(task)
    if config.model.residual_scaling != "none":
        lines.append(f"residual branches x {trainer.model.residual_scale():.4g}")
    for line in filter(None, lines):
        print(f"  {line}", flush=True)


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
    """The programs that show a run's metrics, if its configuration asks for them: Weights & Biases,
    and TensorBoard (`tensorboard --logdir runs`). They begin at `step`: what a training that was
    killed wrote of later steps is dropped; wandb goes on with the run of the same folder. Raises
    RunError where it cannot be reached."""

    def __init__(self, config: Config, folder: Path, step: int) -> None:
        self._wandb: Any = None
        self._board: Any = None
        if config.wandb != "disabled":
            import wandb

            try:
                self._wandb = wandb.init(
                    project="looplab",
                    name=folder.name,
                    id=folder.name,
                    resume="allow",
                    mode=config.wandb,
                    dir=folder,
                    config=config_to_mapping(config),
                )
            except wandb.errors.Error as error:
                problem = f"wandb cannot be reached ({error}); wandb=offline needs no network"
                raise RunError(problem) from None
        if config.tensorboard:
            from torch.utils.tensorboard import SummaryWriter

            self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)

    def log(self, step: int, values: Mapping[str, Any], pictures: Sequence[Path] = ()) -> None:
        """Log values and PNG files of a step, the latter by their names."""
        if self._wandb is not None:
            import wandb

            content = dict(values)
            for path in pictures:
                content[f"figures/{path.stem}"] = wandb.Image(str(path))
            self._wandb.log(content, step=step)
        if self._board is not None:
            for name, value in values.items():
                is_number = isinstance(value, int | float) and math.isfinite(value)
                if name != "step" and is_number:
                    self._board.add_scalar(name, value, step)
            for path in pictures:
                from matplotlib.image import imread

                name = f"figures/{path.stem}"
                self._board.add_image(name, imread(path), step, dataformats="HWC")
            self._board.flush()

    def close(self) -> None:
        """End the logs."""
        if self._wandb is not None:
            self._wandb.finish()
        if self._board is not None:
            self._board.close()


class RunLog(Trackers):
    """Writes one record per log interval to metrics.jsonl and the trackers, from `step` on."""

    def __init__(self, config: Config, folder: Path, step: int) -> None:
        self.metrics = Metrics(folder / "metrics.jsonl")
        self.metrics.keep_until(step)
        super().__init__(config, folder, step)
        self.last = time.monotonic(), step

    def write(self, step: int, totals: Totals, stage: Stage, cpu_seconds: float) -> dict[str, Any]:
        """Log and return the totals since the last record, the stage, and the processor seconds
        that training has taken so far."""
        last_time, last_step = self.last
        self.last = time.monotonic(), step
        # Two records may stand within one tick of the clock.
        rate = round((step - last_step) / max(self.last[0] - last_time, 1e-9), 2)
        values: dict[str, Any] = {"step": step, "loss": totals.loss, "grad_norm": totals.grad_norm}
        values |= totals.others
        values |= asdict(stage)
        values["steps_per_second"] = rate
        values["cpu_seconds"] = cpu_seconds
        self.metrics.add(values)
        self.log(step, values)
        return values


class Screen:
    """Shows the progress of a training, if `shown`: a bar on a terminal, else plain lines."""

    def __init__(self, steps: int, step: int, curriculum: Curriculum, shown: bool) -> None:
        self.steps = steps
        self.work = Work(curriculum, steps)
        self.terminal = on_terminal()
        self.bar = tqdm(
            total=steps,
            initial=step,
            disable=not (self.terminal and shown),
            dynamic_ncols=True,
            unit="step",
            bar_format=_BAR,
            file=bar_file(),
        )
        self.start = time.monotonic(), step

    def __enter__(self) -> Screen:
        return self

    def __exit__(self, *raised: object) -> None:
        self.bar.close()

    def write(self, record: Mapping[str, Any]) -> None:
        """Show the loss of a record of the log, the error where it was measured, and the sizes."""
        step = record["step"]
        names = ("loss", "error", "bits_per_byte")
        numbers = [f"{x.replace('_', ' ')} {record[x]:.4g}" for x in names if x in record]
        numbers += [f"{name} {record[name]}" for name in ("loops", "dims", "points")]
        # By work, not steps, which cost more as loops and points grow; of this process alone.
        done = self.work(step) - self.work(self.start[1])
        passed = time.monotonic() - self.start[0]
        left = tqdm.format_interval(int(passed * (1 - self.work(step)) / max(done, 1e-9)))
        if self.terminal:
            known = [f"{left} left"]
            known += numbers
            room = shutil.get_terminal_size().columns - _BESIDE
            while len(known) > 1 and len(", ".join(known)) > room:
                # The last numbers are those that a reader misses least.
                known.pop()
            self.bar.set_postfix_str(", ".join(known))
            return
        numbers.append(f"{record['steps_per_second']:.1f} steps/s")
        print(f"step {step}/{self.steps}", *numbers, f"{left} left", sep="  ", flush=True)
