"""metrics.jsonl: one record per line.

records, problems = Metrics(folder.metrics).read()
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .files import write_bytes


@dataclass(frozen=True)
class Metrics:
    """The file of one run: its records, and adding to them."""

    path: Path

    def read(self) -> tuple[list[dict[str, Any]], list[str]]:
        """Its records in order, and the problems of skipped lines, a few words each; a last line
        without its end is dropped."""
        try:
            # After the last line's end comes an empty piece, or a record in the making.
            lines = self.path.read_bytes().split(b"\n")[:-1]
        except OSError:
            return [], []
        records: list[dict[str, Any]] = []
        problems: list[str] = []
        for number, line in enumerate(lines, start=1):
            if not line:
                continue
            try:
                record = json.loads(line)
                record.pop("checksum", None)  # of an earlier version
                record["step"] = int(record["step"])
                records.append(record)
            except (ValueError, KeyError, TypeError, AttributeError):
                problems.append(f"line {number} cannot be read")
        return records, problems

    def keep_until(self, step: int) -> None:
        """Remove the records of later steps, and lines with problems."""
        if self.path.exists():
            lines = [_line(record) for record in self.read()[0] if record["step"] <= step]
            write_bytes(self.path, "".join(lines).encode())

    def add(self, record: Mapping[str, Any]) -> None:
        """Add a record, which has a step."""
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(_line(record))


def _line(record: Mapping[str, Any]) -> str:
    return json.dumps(record) + "\n"


def smoothed(losses: ArrayLike, decay: float) -> NDArray[np.float64]:
    """The running mean of losses [records, ...], with weights that decay by `decay` per record."""
    curve = np.asarray(losses, dtype=np.float64)
    means = np.empty_like(curve)
    # The shape of one record, also where there is none.
    total = np.zeros_like(curve[:1].sum(0))
    weight = 0.0
    for index, loss in enumerate(curve):
        total = decay * total + loss
        weight = decay * weight + 1
        # Over the sum of the weights so far, so that the first means are not drawn towards 0.
        means[index] = total / weight
    return means
