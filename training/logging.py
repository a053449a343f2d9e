"""What a run tells: metrics.jsonl, a progress bar or plain lines, and wandb if it is wanted."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from tqdm import tqdm

from conf.build import config_to_mapping
from conf.checks import ConfigError
from conf.schema import Config

from .files import write_bytes
from .run import RunError


class RunLog:
    """Writes one record per log interval: to metrics.jsonl always, to the screen, and to wandb."""

    def __init__(self, config: Config, folder: Path, step: int) -> None:
        self.steps, self.path = config.training.steps, folder / "metrics.jsonl"
        self._drop_after(step)
        self.wandb = _start_wandb(config, folder)
        self.terminal = sys.stderr.isatty()
        self.bar = tqdm(
            total=self.steps,
            initial=step,
            disable=not self.terminal,
            dynamic_ncols=True,
            unit="step",
            desc="training",
        )
        self.began, self.begin_step, self.last = time.monotonic(), step, (time.monotonic(), step)

    def __enter__(self) -> RunLog:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.bar.close()
        if self.wandb is not None:
            self.wandb.finish()

    def tick(self) -> None:
        """One step was made (the device may still be at it)."""
        self.bar.update()

    def write(self, record: dict[str, Any]) -> None:
        """Log a record, which holds at least step, loss, loops, dims and points."""
        now, step = time.monotonic(), record["step"]
        then, before = self.last
        self.last = now, step
        record["steps_per_second"] = round((step - before) / max(now - then, 1e-9), 2)
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        shown = {key: record[key] for key in ("loss", "loops", "dims", "points")}
        if self.terminal:
            self.bar.set_postfix(shown | {"loss": f"{record['loss']:.4g}"})
        else:
            rate = (step - self.begin_step) / max(now - self.began, 1e-9)
            left = tqdm.format_interval(int((self.steps - step) / max(rate, 1e-9)))
            print(
                f"step {step}/{self.steps}  loss {record['loss']:.4g}  loops {record['loops']}  "
                f"dims {record['dims']}  points {record['points']}  "
                f"{record['steps_per_second']:.1f} steps/s  {left} left",
                flush=True,
            )
        if self.wandb is not None:
            self.wandb.log(record, step=step)

    def rewind(self, step: int, why: str) -> None:
        """Go back to `step`, and say why."""
        tqdm.write(why, file=sys.stderr if self.terminal else sys.stdout)
        self._drop_after(step)
        self.bar.reset()
        self.bar.update(step)
        self.last = time.monotonic(), step

    def _drop_after(self, step: int) -> None:
        """Forget the records of steps that will be made again, and a line half written."""
        if not self.path.exists():
            return
        kept = []
        for line in self.path.read_text(encoding="utf-8").splitlines():
            try:
                if json.loads(line)["step"] <= step:
                    kept.append(line + "\n")
            except (ValueError, KeyError, TypeError):
                continue
        write_bytes(self.path, "".join(kept).encode())


def check_wandb(mode: str) -> None:
    """Refuse, before anything is written, a wandb that is missing or would ask for a login."""
    if mode == "disabled":
        return
    try:
        import wandb
    except ImportError:
        problem = f"cannot be {mode}: it is not installed (pip install wandb)"
        raise ConfigError("wandb", problem) from None
    if mode == "online" and not wandb.login(prompt=False, verify=False):
        problem = "cannot be online: no account here (set WANDB_API_KEY, or wandb=offline)"
        raise ConfigError("wandb", problem)


def _start_wandb(config: Config, folder: Path) -> Any:
    if config.wandb == "disabled":
        return None
    import wandb

    try:
        return wandb.init(
            project="reloop",
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
