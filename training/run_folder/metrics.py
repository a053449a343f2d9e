"""metrics.jsonl: one record per line, each with a checksum over the run, the previous line and its
own content, so that an altered line, or one of another run, is recognised.

lines, problems = Metrics(folder.metrics, run_key).read()
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reloop.conf.checksum import key_of

from .files import write_bytes

_DIGITS = 12  # of a checksum


class Metrics:
    """The file of one run with the key `run`: its records, and adding to them. Earlier versions
    wrote no checksums: a file without any is not checked."""

    def __init__(self, path: Path, run: str) -> None:
        self.path, self._run = path, run
        self._last = ""

    def read(self) -> tuple[list[dict[str, Any]], list[str]]:
        """Its records in order, and the problems of skipped lines, a few words each."""
        try:
            content = self.path.read_bytes()
        except OSError:
            return [], []
        lines = [
            (number, _record(raw))
            for number, raw in enumerate(content.split(b"\n"), start=1)
            if raw
        ]
        sealed = any(record and "checksum" in record for _, record in lines)
        records: list[dict[str, Any]] = []
        problems: list[str] = []
        previous = ""
        for number, record in lines:
            checksum = record.get("checksum") if record else None
            if record is None:
                problems.append(f"line {number} cannot be read")
            elif sealed and checksum != self._checksum(previous, record):
                problems.append(f"line {number} was altered, or is of another run")
            else:
                records.append(record)
            previous = str(checksum or "")
        return records, problems

    def problems(self, steps: int) -> list[str]:
        """The problems of the file of a finished training."""
        records, problems = self.read()
        last = records[-1]["step"] if records else 0
        return problems + ([f"ends at step {last} of {steps}"] if last != steps else [])

    def keep_until(self, step: int) -> list[str]:
        """Remove the records of later steps, and lines with problems; the problems."""
        if not self.path.exists():
            return []
        records, problems = self.read()
        self._last = ""  # checksums chain the lines: the remaining ones are rewritten
        lines = [self._line(record) for record in records if record["step"] <= step]
        write_bytes(self.path, "".join(lines).encode())
        return problems

    def add(self, record: Mapping[str, Any]) -> None:
        """Add a record, which has a step."""
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(self._line(record))

    def _line(self, record: Mapping[str, Any]) -> str:
        self._last = self._checksum(self._last, record)
        return json.dumps({**record, "checksum": self._last}) + "\n"

    def _checksum(self, previous: str, record: Mapping[str, Any]) -> str:
        content = {key: value for key, value in record.items() if key != "checksum"}
        return key_of([self._run, previous, content], _DIGITS)


def smoothed(losses: ArrayLike, decay: float) -> NDArray[np.float64]:
    """The running mean of losses [records, ...], with weights that decay by `decay` per record."""
    curve = np.asarray(losses, dtype=np.float64)
    means, total, weight = np.empty_like(curve), np.zeros_like(curve[:1].sum(0)), 0.0
    for index, loss in enumerate(curve):
        total, weight = decay * total + loss, decay * weight + 1
        means[index] = total / weight
    return means


def _record(raw: bytes) -> dict[str, Any] | None:
    """The record of a line; None for a line without a record or a step."""
    try:
        record = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    step = record.get("step") if isinstance(record, dict) else None
    return record if isinstance(step, int) and not isinstance(step, bool) else None
