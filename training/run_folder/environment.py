"""The environment of a run: versions, machine, command, and the source files that its numbers
depend on."""

from __future__ import annotations

import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from looplab.conf.schema import Config
from looplab.models.loops.make import loop_class
from looplab.tasks import task_class

from .sources import KERNELS, TRAINED, changed_files, sources_of

_PACKAGES = ("torch", "numpy", "safetensors", "scikit-learn")


def environment(config: Config, backend: str = "eager") -> dict[str, Any]:
    """Versions, machine, command and code, for environment.json."""
    return {**versions(), "backend": backend, "sources": training_sources(config, backend)}


def versions() -> dict[str, Any]:
    """Versions, machine, commit and command of this process."""
    return {
        "command": shlex.join(sys.argv),
        "git_commit": _git_commit(),
        "python": platform.python_version(),
        **{name: _version(name) for name in _PACKAGES},
        "machine": f"{platform.system()} {platform.machine()}, {torch.get_num_threads()} threads",
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def training_sources(config: Config, backend: str = "eager") -> dict[str, str]:
    """The source files that the weights of a run depend on, with their digests."""
    loop = loop_class(config.model.injection)
    classes = [task_class(config.task.name), *([loop] if loop else [])]
    rooms = (*TRAINED, KERNELS) if backend == "triton" else TRAINED
    return sources_of(*rooms, plugins=[each.__module__ for each in classes])


def changed_versions(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The differences of two environments without their source files, a line each."""
    commit = () if isinstance(before.get("sources"), dict) else ("git_commit",)
    return [
        f"{key} was {before.get(key)}, is {now[key]}"
        for key in (*commit, "python", *_PACKAGES, "machine")
        if before.get(key) != now[key]
    ]


def other_code(record: Mapping[str, Any] | None, config: Config) -> list[str]:
    """The files in which the code of a run, or of any part of it, differs from today's; none
    without a record, as of earlier versions and imported checkpoints."""
    first = record or {}
    files: set[str] = set()
    for part in (first, *first.get("continued", [])):
        if "sources" in part:
            now = training_sources(config, part.get("backend", "eager"))
            files |= set(changed_files(part["sources"], now))
    return sorted(files)


def some_files(files: Sequence[str]) -> str:
    """The first three files, and the number of further ones."""
    return ", ".join(files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else "")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _git_commit() -> str | None:
    """The commit of this code, marked where the work tree differs from it; None where it is
    installed, maybe within another repository."""
    home = Path(__file__).resolve().parents[2]
    if not (home / ".git").exists():
        return None
    command = ["git", "-C", str(home), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return result.stdout.strip() or None
