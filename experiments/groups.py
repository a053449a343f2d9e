"""Grids and experiments in a folder of runs: what each is, which runs it has, and the command that
goes on with it. A file says so from the start, so that one that was interrupted is found. No torch
here.

begin(grid.folder, grid.title, grid.command, {path_of_run_folder: "b = 8, seed 0"})
groups_in(Path("runs"))
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from looplab.training.run_folder.files import read_record, write_record

_BEGUN = "begun"
_RESULT = "experiment"  # the kind of a result.json


@dataclass(frozen=True)
class Group:
    """A grid or experiment. `name` is that of its folder; `runs` are what each run is within it, in
    words, by the name of its run folder."""

    name: str
    title: str
    command: str
    runs: Mapping[str, str]


def begin(folder: Path, title: str, command: str, runs: Mapping[str, str]) -> None:
    """Write down, before its training, what a grid or experiment is; `runs` as in `Group`, by the
    paths of run folders; models that ship are left out."""
    group = Group(folder.name, title, command, _by_name(runs))
    folder.mkdir(parents=True, exist_ok=True)
    write_record(folder / f"{_BEGUN}.json", _BEGUN, asdict(group))


def groups_in(folder: Path) -> list[Group]:
    """The grids and experiments of the runs in a folder, by name; of one from before such files
    were written what its result says."""
    found = []
    for path in sorted([*folder.glob("grid-*"), *folder.glob("experiments/*")]):
        begun = read_record(path / f"{_BEGUN}.json", _BEGUN).content
        if begun:
            found.append(Group(**begun))
        elif result := read_record(path / "result.json", _RESULT).content:
            found.append(_of_result(path.name, result))
    return [group for group in found if group.runs]


def _of_result(name: str, result: dict[str, Any]) -> Group:
    runs = {
        member["run"]: f"{member['label']}, seed {member['seed']}"
        for member in result.get("members", ())
    }
    return Group(name, result.get("title", ""), result.get("command", ""), _by_name(runs))


def _by_name(runs: Mapping[str, str]) -> dict[str, str]:
    own = {path: label for path, label in runs.items() if not path.startswith("shipped/")}
    return {Path(path).name: label for path, label in own.items()}
