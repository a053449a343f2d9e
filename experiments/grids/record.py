"""What a grid's folder says of it: grid.json with the command and the members. No torch here.

keep_record(grid, words); record = read_grid(Path("runs/grid-1234abcd")); record.members[0].label
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from reloop.conf.mistakes import ConfigError
from reloop.training.run_folder.files import read_record, write_record

if TYPE_CHECKING:
    from .grid import Grid

_KIND = "grid"


@dataclass(frozen=True)
class KeptMember:
    """A member by its label, its run folder and the words that train it alone."""

    label: str
    run: Path
    words: tuple[str, ...]


@dataclass(frozen=True)
class KeptGrid:
    """A grid by its folder, the words after `python run.py -m`, and its members."""

    folder: Path
    words: tuple[str, ...]
    members: tuple[KeptMember, ...]


def keep_record(grid: Grid, words: Sequence[str]) -> None:
    """Write grid.json."""
    members = [
        {"label": each.label, "run": str(each.path), "words": list(each.command.words)}
        for each in grid.members
    ]
    grid.folder.mkdir(parents=True, exist_ok=True)
    write_record(grid.folder / "grid.json", _KIND, {"words": list(words), "members": members})


def read_grid(folder: Path) -> KeptGrid:
    """Read grid.json; ConfigError where the folder is no grid's."""
    record = read_record(folder / "grid.json", _KIND)
    if record.content is None:
        problem = record.problem or f"{folder} has no grid.json"
        raise ConfigError("grid", f"must name the folder of a grid: {problem}")
    members = tuple(
        KeptMember(each["label"], Path(each["run"]), tuple(each["words"]))
        for each in record.content["members"]
    )
    return KeptGrid(folder, tuple(record.content["words"]), members)
