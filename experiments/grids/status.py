"""`action=status` and `action=cancel`: how far the members of a grid are, by their folders and by
Slurm. No torch here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from looplab.conf.mistakes import ConfigError, RunError
from looplab.conf.schema import TableSettings
from looplab.conf.setting import check_settings, setting
from looplab.conf.words import run_py
from looplab.evaluation.tables import Part, Table, document
from looplab.training.run_folder.status import status_of

from ..runs_table import count_of, duration, rows_of
from .grid import read_grid
from .slurm import arrays_of, cancel, states_of


@dataclass(frozen=True)
class StatusSettings:
    """Which grid, and how the table is printed."""

    grid: str = setting("", "the grid's folder, as runs/grid-1234abcd")
    tables: TableSettings = TableSettings()

    def check(self) -> None:
        """Raises ConfigError for the first invalid setting, and a folder that is no grid's."""
        check_settings("", self)
        if not self.grid:
            raise ConfigError("grid", "must name the folder of a grid: grid=runs/grid-1234abcd")
        read_grid(Path(self.grid))


def status(settings: StatusSettings) -> str:
    """A table of the members, their number by state, and what to do next."""
    grid = read_grid(Path(settings.grid))
    rows = rows_of([member.run for member in grid.members])
    arrays, notes = arrays_of(grid.folder), list[str]()
    try:
        slurm = states_of(arrays)
    except RunError as error:
        slurm = {}
        notes.append(f"Slurm does not answer: {error}")
    head = ["run", "state", *(["Slurm"] if arrays else []), "step", "left", "error"]
    cells = []
    for index, (member, row) in enumerate(zip(grid.members, rows, strict=True)):
        own = [slurm.get(index, "").lower()] if arrays else []
        step = f"{row['step']:,}" + (f"/{row['steps']:,}" if row["steps"] else "")
        last = "" if row["error"] is None else f"{row['error']:.4g}"
        name = member.label or row["name"]
        cells.append([name, row["state"], *own, step, duration(row["left"]), last])
        if reason := status_of(member.run).get("reason"):
            notes.append(f"failed: {member.label}: {reason}")
    parts: list[Part] = [Table(head, cells), "", count_of(rows), *notes]
    if any(row["state"] != "finished" for row in rows):
        parts.append(f"{run_py('-m', *grid.words)}: what is missing")
    return document(parts, settings.tables.format)


def cancelled(settings: StatusSettings) -> str:
    """Cancel the grid's arrays, and say which."""
    numbers = cancel(arrays_of(Path(settings.grid)))
    if not numbers:
        return "Slurm has nothing of this grid"
    return f"cancelled: {', '.join(numbers)}; what was trained is saved"
