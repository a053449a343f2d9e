"""A run folder as a row of a table: its settings, how far it is, and its last numbers. No torch
here, since a folder of a thousand runs is to be shown within a second.

rows = rows_of([Path("runs/A"), Path("runs/B")]); rows[0].state
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from reloop.conf.build import config_to_mapping, flatten
from reloop.conf.mistakes import ConfigError
from reloop.conf.saved import read_mapping
from reloop.conf.schema import Config
from reloop.training.run_folder.files import read_record
from reloop.training.run_folder.sources import is_current
from reloop.training.run_folder.status import last_record, status_of

from .one_number import one_number


@dataclass(frozen=True)
class Row:
    """A run folder. `settings` are its configuration by dotted key, with the defaults of keys that
    an older version did not write; empty where `problem` says that it cannot be read. `written` is
    when its status or its metrics were last written, in seconds since 1970."""

    path: Path
    settings: Mapping[str, Any]
    state: str
    step: int
    written: float
    problem: str = ""

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def task(self) -> str:
        return str(self.settings.get("task.name", ""))

    @property
    def model(self) -> str:
        """The family, or the connectivity of a looped model that has one."""
        connectivity = self.settings.get("model.connectivity")
        return str(connectivity or self.settings.get("model.family", ""))

    @property
    def steps(self) -> int:
        return int(self.settings.get("training.steps", 0))

    @cached_property
    def loss(self) -> float | None:
        """The last training loss that was logged."""
        return _number(self._last.get("loss"))

    @cached_property
    def left(self) -> float | None:
        """Seconds that a running training still takes, at the steps per second of its last log
        interval: later steps may have more loops."""
        rate = _number(self._last.get("steps_per_second"))
        if self.state != "running" or not rate:
            return None
        return max(self.steps - int(self._last["step"]), 0) / rate

    @property
    def error(self) -> float | None:
        """The `one_number` of the newest evaluation: the error of the last query at b loops, of a
        language model the bits per byte of its held-out text; None where that was of an earlier
        step."""
        try:
            return _number(one_number(self._evaluation))
        except (KeyError, IndexError, TypeError):
            return None

    @property
    def remarks(self) -> str:
        """What that evaluation says of the run, as that its training was unfinished; not that it is
        of other code, where an edit was taken back since."""
        found = self._evaluation.get("remarks")
        lines = list(map(str, found)) if isinstance(found, list) else []
        return "; ".join(
            line for line in lines if not line.startswith("trained by other code") or self._edited
        )

    @cached_property
    def _edited(self) -> bool:
        content = read_record(self.path / "environment.json", "environment").content or {}
        parts = [content, *content.get("continued", [])]
        return not all(is_current(part.get("sources", {"unknown": ""})) for part in parts)

    @cached_property
    def _evaluation(self) -> Mapping[str, Any]:
        """The newest evaluation; empty where it was of another step."""
        content = read_record(self.path / "evaluation.json", "evaluation").content or {}
        return content if content.get("step") == self.step else {}

    @cached_property
    def _last(self) -> Mapping[str, Any]:
        return last_record(self.path)


def rows_of(paths: Sequence[Path]) -> list[Row]:
    """The rows of run folders, in this order."""
    defaults = flatten(config_to_mapping(Config()))
    return [_row(path, defaults) for path in paths]


def _row(path: Path, defaults: Mapping[str, Any]) -> Row:
    problem, settings = "", {}
    try:
        mapping = read_mapping(path)
        settings = {**defaults, **flatten(mapping)}
    except ConfigError as error:
        problem = str(error)
    status = status_of(path)
    step = status["step"]
    return Row(path, settings, status["state"], int(step), _written(path), problem)


def _written(path: Path) -> float:
    times = [_mtime(path / name) for name in ("status.json", "metrics.jsonl")]
    return max(times) or _mtime(path)


def _mtime(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _number(value: Any) -> float | None:
    """A number as it is; None for anything else, as for the null of an infinite loss."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
