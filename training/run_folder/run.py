"""Run folders: their name, their files, who is at work in them, and how far they have come."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from reloop.conf.build import config_from_mapping, config_to_mapping, flatten
from reloop.conf.checksum import key_of
from reloop.conf.mistakes import ConfigError
from reloop.conf.mistakes import RunError as RunError
from reloop.conf.saved import checkpoint_config, read_mapping
from reloop.conf.schema import Config
from reloop.models import Model
from reloop.models.loops.make import loop_class
from reloop.tasks import Task, task_class

from .environment import changed_versions, environment, other_code
from .files import read_record, remove_half_written, write_bytes, write_record
from .lock import forget_holder, holding, is_held, writer
from .sources import outside_source

# What a run's weights do not depend on, and so its name neither.
_APART = (
    *("seed", "device", "backend", "folder", "plugins", "scale", "recipe", "wandb", "evaluation."),
    *("task.name", "model.family", "task.settings.data_dir"),
    *("training.checkpoint_every", "training.log_every", "training.log_norms"),
    "training.on_divergence",
)
_STATES = ("running", "interrupted", "failed", "finished")


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

    def create(
        self, config: Config, backend: str = "eager", say: Callable[[str], object] = print
    ) -> Mapping[str, Any]:
        """Write configuration and environment, unless they are there; the configuration as plain
        values, for the checkpoints. To be called with the folder's lock held.

        A config.yaml that was damaged or altered is rewritten, and `say` is given a line on it.
        Raises RunError where the folder holds a run of other settings.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        remove_half_written(self.path)
        path, asked = self.path / "config.yaml", config_to_mapping(config)
        if not path.exists() and checkpoint_config(self.checkpoints) is None:
            write_record(
                self.path / "environment.json", "environment", environment(config, backend)
            )
            _write_yaml(path, asked)
            return asked
        said: list[str] = []
        try:
            found = read_mapping(self.path, said.append)
            different = self._differences(config, config_from_mapping(found))
        except ConfigError as error:
            said.append(str(error))
            found, different = asked, []
        if different:
            raise RunError(
                f"{self.path} holds a run of other settings ({', '.join(different)}): move it away"
            )
        if said:
            say(f"{said[0]}; {path.name} is rewritten")
            _write_yaml(path, found)
        return found

    def _differences(self, config: Config, found: Config) -> list[str]:
        """The settings that bear on training in which a configuration found here is another."""
        ours = _training_values(config) | {"task": config.task.name}
        theirs = _training_values(found) | {"task": found.task.name}
        keys = [key for key in {**ours, **theirs} if ours.get(key) != theirs.get(key)]
        return [f"{key} is {theirs.get(key)}, not {ours.get(key)}" for key in keys[:3]]

    def made_with(self) -> dict[str, Any] | None:
        """The environment that the run was made in; None where it cannot be read."""
        found = read_record(self.path / "environment.json", "environment").content
        if found is not None and not isinstance(found.get("continued", []), list):
            return None
        return found

    def changes(self, config: Config, backend: str = "eager") -> list[str]:
        """What differs between where the run was made and here, a line each."""
        before = self.made_with()
        if before is None:
            return ["environment.json cannot be read: what it was made with is not known"]
        lines = changed_versions(before, environment(config, backend))
        files = other_code(before, config)
        if files:
            lines.append(
                f"{', '.join(files)} changed: this run's numbers are marked as made by other code "
                "(again=true trains again)"
            )
        return lines

    def note_code(self, config: Config, backend: str, step: int) -> None:
        """Keep with what code training begins (step 0), or goes on from a later step."""
        before, now = self.made_with(), environment(config, backend)
        if not step or before is None:
            self._note(now | {"from_step": step} if step else now)
            return
        continued = before.get("continued", [])
        parts = [part for part in (before, *continued) if "sources" in part]
        if all(part["sources"] != now["sources"] for part in parts):
            self._note(before | {"continued": [*continued, now | {"from_step": step}]})

    def _note(self, made_with: Mapping[str, Any]) -> None:
        write_record(self.path / "environment.json", "environment", made_with)

    def status(self) -> dict[str, Any]:
        """How far the run has come: `state` (new, running, interrupted, failed, finished, stopped
        for one whose process has ended without a word, or unknown), `step`, …"""
        found = read_record(self.path / "status.json", "status")
        status = found.content
        if status is None:
            return {"state": "unknown" if found.problem else "new", "step": 0}
        numbers = [status.get("step"), *(status.get(key, 0) for key in ("seconds", "cpu_seconds"))]
        if status.get("state") not in _STATES or not all(map(_is_number, numbers)):
            return {"state": "unknown", "step": 0}
        if status["state"] == "running" and not is_held(self.path):
            return status | {"state": "stopped"}
        return status

    def write_status(self, state: str, step: int, **facts: Any) -> None:
        """Replace the status, with who wrote it."""
        content = {"state": state, "step": step, **facts, **writer()}
        write_record(self.path / "status.json", "status", content)

    def set_aside(self) -> Path | None:
        """Give the folder another name, beside the old one, if it is there; the new path. Raises
        HeldElsewhere while another process works in it."""
        if not self.path.exists():
            return None
        with self.lock():
            number = 1
            while (aside := self.path.with_name(f"{self.path.name}-before-{number}")).exists():
                number += 1
            self.path.rename(aside)
        forget_holder(aside)
        return aside

    def lock(self, part: str = "") -> AbstractContextManager[None]:
        """Hold the folder, or a part of it, against other processes: see `lock.holding`."""
        return holding(self.path, part)


def run_folder(config: Config) -> RunFolder:
    """Where a configuration's run stands: task, model, seed, and a hash of those settings that
    bear on training and differ from their defaults (so that new settings rename no old runs), and
    of the sources of task and loop where they were registered outside the project."""
    values, defaults = _training_values(config), _training_values(Config())
    known = {field.name: field.default for field in fields(task_class(config.task.name))}
    known = {k: list(v) if isinstance(v, tuple) else v for k, v in known.items()}
    defaults |= {f"task.settings.{key}": default for key, default in known.items()}
    changed = {key: value for key, value in values.items() if defaults.get(key) != value}
    outside = {"task": task_class(config.task.name), "loop": loop_class(config.model.injection)}
    for part, cls in outside.items():
        if cls is not None and (source := outside_source(cls)) is not None:
            changed[f"{part}.source"] = source
    digest = key_of(changed, 8)
    name = f"{config.task.name}-{config.model.family}-seed{config.seed}-{digest}"
    return RunFolder(Path(config.folder) / name)


def _training_values(config: Config) -> dict[str, Any]:
    flat = flatten(config_to_mapping(config))
    del flat["schema_version"]
    return {k: v for k, v in flat.items() if not k.startswith(_APART)}


def _write_yaml(path: Path, mapping: Mapping[str, Any]) -> None:
    write_bytes(path, yaml.safe_dump(dict(mapping), sort_keys=False).encode())


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
