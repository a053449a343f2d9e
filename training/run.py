"""Run folders: their name, their files, who is at work in them, and how far they have come."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
import yaml
from filelock import FileLock, Timeout

from conf.build import config_to_mapping, flatten
from conf.checks import ConfigError, HeldElsewhere
from conf.checks import RunError as RunError
from conf.schema import Config
from models import Model
from tasks import Task, task_class

from .files import read_json, write_bytes, write_json

_PACKAGES = ("torch", "numpy", "safetensors", "scikit-learn")
# What a run's weights do not depend on, and so its name neither.
_APART = (
    *("seed", "device", "backend", "folder", "scale", "wandb", "evaluation."),
    *("task.name", "model.family", "task.settings.data_dir"),
    *("training.checkpoint_every", "training.log_every", "training.on_divergence"),
)


@dataclass(frozen=True)
class Run:
    """A trained run: `model` is in eval mode and holds the weights after `step` steps."""

    path: Path
    config: Config
    task: Task
    model: Model
    step: int


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run and the files in it."""

    path: Path

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    def create(self, config: Config) -> None:
        """Make the folder and write its configuration and environment, unless they are there.
        ConfigError where this place cannot hold it."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError("folder", f"cannot hold runs: {error}") from None
        path = self.path / "config.yaml"
        if not path.exists():
            write_json(self.path / "environment.json", environment())
            text = yaml.safe_dump(config_to_mapping(config), sort_keys=False)
            write_bytes(path, text.encode())

    def changes(self) -> list[str]:
        """What differs between where the run began and here, a line each."""
        before, now = read_json(self.path / "environment.json") or {}, environment()
        return [
            f"{key} was {before.get(key)}, is {now[key]}"
            for key in ("git_commit", "python", *_PACKAGES, "machine")
            if before.get(key) != now[key]
        ]

    def status(self) -> dict[str, Any]:
        """How far the run has come: state (running, interrupted, failed or finished), step, …"""
        status = read_json(self.path / "status.json")
        return status if isinstance(status, dict) else {"state": "new", "step": 0}

    def write_status(self, state: str, step: int, **facts: Any) -> None:
        """Replace the status, with who wrote it."""
        write_json(
            self.path / "status.json",
            {"state": state, "step": step, **facts, **_writer()},
        )

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder against other processes; HeldElsewhere saying who holds it already."""
        lock = FileLock(self.path / ".lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            holder = read_json(self.path / ".holder.json") or {}
            who = f"process {holder['pid']} on {holder['host']}" if holder else "another process"
            since = f" since {holder['time']}" if holder else ""
            raise HeldElsewhere(self.path, f"{who}{since}") from None
        try:
            write_json(self.path / ".holder.json", _writer())
            yield
        finally:
            lock.release()


def run_folder(config: Config) -> RunFolder:
    """Where a configuration's run stands: task, model, seed, and a hash of those settings that
    bear on training and differ from their defaults (so that new settings rename no old runs)."""
    values, defaults = _training_values(config), _training_values(Config())
    known = {field.name: field.default for field in fields(task_class(config.task.name))}
    known = {k: list(v) if isinstance(v, tuple) else v for k, v in known.items()}
    defaults |= {f"task.settings.{key}": default for key, default in known.items()}
    changed = {key: value for key, value in values.items() if defaults.get(key) != value}
    digest = hashlib.sha256(json.dumps(changed, sort_keys=True).encode()).hexdigest()[:8]
    name = f"{config.task.name}-{config.model.family}-seed{config.seed}-{digest}"
    return RunFolder(Path(config.folder) / name)


def environment() -> dict[str, Any]:
    """Versions, machine, code and command, for environment.json."""
    return {
        "command": " ".join(sys.argv),
        "git_commit": _git_commit(),
        "python": platform.python_version(),
        **{name: _version(name) for name in _PACKAGES},
        "machine": f"{platform.system()} {platform.machine()}, {torch.get_num_threads()} threads",
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def _training_values(config: Config) -> dict[str, Any]:
    flat = flatten(config_to_mapping(config))
    del flat["schema_version"]
    return {k: v for k, v in flat.items() if not k.startswith(_APART)}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _git_commit() -> str | None:
    """The commit of this code, marked where the work tree differs from it."""
    home = Path(__file__).parent.parent
    command = ["git", "-C", str(home), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() or None


def _writer() -> dict[str, Any]:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {"pid": os.getpid(), "host": socket.gethostname(), "time": now}
