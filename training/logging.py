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

from .progress import Work, on_terminal
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


def print_description(path: Path, config: Config, trainer: Trainer, why: str, step: int) -> None:
    """Print what is trained in the folder `path` from `step` on, and `why` on this device."""
    print(f"{path}: {trainer.model.describe()}; {why}", flush=True)
    lines = [
        trainer.task.data.describe(config.task.points),
        "" if step else edited_since(config, path),
        *divisor_remark(trainer.task),
    ]
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


def _start_wandb(config: Config, folder: Path) -> Any:
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


class Trackers:
    """The programs that show a run's metrics, if its configuration asks for them: Weights & Biases,
    and TensorBoard (`tensorboard --logdir runs`). They begin at `step`: what a training that was
    killed wrote of later steps is dropped."""

    def __init__(self, config: Config, folder: Path, step: int) -> None:
        self._wandb: Any = _start_wandb(config, folder)
        self._board: Any = None
        if config.tensorboard:
            from torch.utils.tensorboard import SummaryWriter

            self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)

    def log(self, step: int, values: Mapping[str, Any], pictures: Sequence[Path] = ()) -> None:
        """Log values and PNG files of a step, the latter by their names."""
        if self._wandb is not None:
            import wandb

            images = {f"figures/{path.stem}": wandb.Image(str(path)) for path in pictures}
            self._wandb.log({**values, **images}, step=step)
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


class RunLog:
    """Writes one record per log interval to metrics.jsonl and the trackers, from `step` on."""

    def __init__(self, config: Config, folder: Path, step: int) -> None:
        self.metrics = Metrics(folder / "metrics.jsonl")
        self.metrics.keep_until(step)
        self._trackers = Trackers(config, folder, step)
        self.last = time.monotonic(), step

    def write(self, step: int, totals: Totals, stage: Stage, cpu_seconds: float) -> dict[str, Any]:
        """Log and return the totals since the last record, the stage, and the processor seconds
        that training has taken so far."""
        last_time, last_step = self.last
        self.last = time.monotonic(), step
        rate = round((step - last_step) / max(self.last[0] - last_time, 1e-9), 2)
        means = {"loss": totals.loss, "grad_norm": totals.grad_norm, **totals.others}
        values = {"step": step, **means, **asdict(stage), "steps_per_second": rate}
        values["cpu_seconds"] = cpu_seconds
        self.metrics.add(values)
        self._trackers.log(step, values)
        return values

    def close(self) -> None:
        """End the logs of trackers."""
        self._trackers.close()


class Screen:
    """Shows the progress of a training, if `shown`: a bar on a terminal, else plain lines."""

    def __init__(self, steps: int, step: int, curriculum: Curriculum, shown: bool) -> None:
        self.steps, self.work, self.shown = steps, Work(curriculum, steps), shown
        self.terminal = on_terminal()
        self.bar = tqdm(
            total=steps,
            initial=step,
            disable=not (self.terminal and shown),
            dynamic_ncols=True,
            unit="step",
            bar_format=_BAR,
        )
        self.start = self.last = time.monotonic(), step

    def __enter__(self) -> Screen:
        return self

    def __exit__(self, *raised: object) -> None:
        self.bar.close()

    def tick(self) -> None:
        """Count one step (the device may still compute it)."""
        self.bar.update()

    def write(self, step: int, stage: Stage, totals: Totals) -> None:
        """Show the loss since the last call, and the error where it was measured, from the totals
        at `step` of this stage."""
        if not self.shown:
            return
        (last_time, last_step), self.last = self.last, (time.monotonic(), step)
        rate = (step - last_step) / max(self.last[0] - last_time, 1e-9)
        measured = [name for name in ("error", "bits_per_byte") if name in totals.others]
        values = {"loss": totals.loss} | {name: totals.others[name] for name in measured}
        shown = {name.replace("_", " "): f"{value:.4g}" for name, value in values.items()}
        done = self.work(step) - self.work(self.start[1])
        seconds = (self.last[0] - self.start[0]) * (1 - self.work(step)) / max(done, 1e-9)
        left = tqdm.format_interval(int(seconds))
        if self.terminal:
            sizes = {"loops": stage.loops, "dims": stage.dims, "points": stage.points}
            known = [f"{left} left", *(f"{name} {x}" for name, x in {**shown, **sizes}.items())]
            while len(", ".join(known)) > shutil.get_terminal_size().columns - _BESIDE:
                known.pop()
            self.bar.set_postfix_str(", ".join(known))
            return
        numbers = "  ".join(f"{name} {text}" for name, text in shown.items())
        print(
            f"step {step}/{self.steps}  {numbers}  loops {stage.loops}  dims {stage.dims}  "
            f"points {stage.points}  {rate:.1f} steps/s  {left} left",
            flush=True,
        )
