"""metrics.jsonl: a record a line, each with a checksum over the run, the line before and its own
content, so that a line that was altered, or is of another run, is recognised.

lines, problems = Metrics(folder.metrics, run_key).read()
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reloop.conf.checksum import key_of

from .files import write_bytes

_DIGITS = 12  # of a checksum


class Metrics:
    """The file of one run, which `run` stands for: what it holds, and records added to it. Earlier
    versions wrote no checksums: a file without any is taken as it is."""

    def __init__(self, path: Path, run: str) -> None:
        self.path, self._run = path, run
        self._last = ""

    def read(self) -> tuple[list[dict[str, Any]], list[str]]:
        """Its records in order, and what is wrong with lines left out, a few words each."""
        try:
            content = self.path.read_bytes()
        except OSError:
            return [], []
        found = [
            (number, _record(raw))
            for number, raw in enumerate(content.split(b"\n"), start=1)
            if raw
        ]
        sealed = any(record and "checksum" in record for _, record in found)
        kept: list[dict[str, Any]] = []
        problems: list[str] = []
        before = ""
        for number, record in found:
            stated = record.get("checksum") if record else None
            if record is None:
                problems.append(f"line {number} cannot be read")
            elif sealed and stated != self._checksum(before, record):
                problems.append(f"line {number} was altered, or is of another run")
            else:
                kept.append(record)
            before = str(stated or "")
        return kept, problems

    def problems(self, steps: int) -> list[str]:
        """What is wrong with the record of a training that has made all its steps."""
        records, problems = self.read()
        last = records[-1]["step"] if records else 0
        return problems + ([f"ends at step {last} of {steps}"] if last != steps else [])

    def keep_until(self, step: int) -> list[str]:
        """Leave out the records of later steps, and lines that cannot be trusted; what is wrong
        with these."""
        if not self.path.exists():
            return []
        records, problems = self.read()
        self._last = ""  # each line follows the one before: what is kept is rewritten
        kept = [self._line(record) for record in records if record["step"] <= step]
        write_bytes(self.path, "".join(kept).encode())
        return problems

    def add(self, record: Mapping[str, Any]) -> None:
        """Add a record, which holds its step."""
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(self._line(record))

    def _line(self, record: Mapping[str, Any]) -> str:
        content = {key: value for key, value in record.items() if key != "checksum"}
        self._last = self._checksum(self._last, content)
        return json.dumps({**content, "checksum": self._last}) + "\n"

    def _checksum(self, before: str, record: Mapping[str, Any]) -> str:
        content = {key: value for key, value in record.items() if key != "checksum"}
        return key_of([self._run, before, content], _DIGITS)


def _record(raw: bytes) -> dict[str, Any] | None:
    """A line's record; None for one that is none, or has no step."""
    try:
        record = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    step = record.get("step") if isinstance(record, dict) else None
    return record if isinstance(step, int) and not isinstance(step, bool) else None
