"""The run folders, experiments and other results in a folder, by the files that are there. No torch
here."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import NamedTuple

from looplab.conf.checks.folders import is_hidden
from looplab.conf.mistakes import ConfigError, nearest
from looplab.experiments.definition import experiment_of
from looplab.training.run_folder.status import is_run, named_runs, runs_in

from .command import ReportSettings

_LAW = "scaling_law.json"
_GRID = re.compile(r"grid-[0-9a-f]{8}$")
_DEPTH = ("*", "*/*")  # below the folder: runs/NAME, runs/shipped/NAME


class Found(NamedTuple):
    """What a report is about: paths of run folders and of result files, in the order of their
    names."""

    runs: list[Path]
    experiments: list[Path]
    comparisons: list[Path]
    laws: list[Path]


def find(settings: ReportSettings) -> Found:
    """What the settings ask for. Raises ConfigError where that is nothing."""
    folder = Path(settings.folder)
    if settings.runs:
        return Found(named_runs(settings.runs), [], [], [])
    if settings.experiment is not None:
        return _experiments(folder, settings.experiment)
    if not folder.is_dir():
        raise ConfigError("folder", f"holds nothing to report: there is no {folder}")
    found = Found(
        runs_in(folder),
        _results(folder),
        _below(folder, "comparison.json"),
        [path.parent for path in _below(folder, _LAW)],
    )
    if not any(found):
        raise ConfigError(
            "folder", f"holds nothing to report: no run, experiment or comparison in {folder}"
        )
    return found


def _below(folder: Path, name: str, part: str = "") -> list[Path]:
    """The files of a name at most two levels below a folder."""
    start = folder / part if part else folder
    found = (path for level in _DEPTH for path in start.glob(f"{level}/{name}"))
    return sorted(path for path in found if not is_hidden(path, start))


def _results(folder: Path) -> list[Path]:
    """The results of named experiments and grids."""
    grids = [path for path in _below(folder, "result.json") if _GRID.match(path.parent.name)]
    return [*_below(folder, "result.json", "experiments"), *grids]


def _experiments(folder: Path, name: str) -> Found:
    """The results of one named experiment at every scale, or of all, and the runs they are of."""
    by_name: dict[str, list[Path]] = {}
    for path in _results(folder):
        by_name.setdefault(experiment_of(path.parent), []).append(path)
    if not by_name:
        command = f"python run.py experiment={name} makes one"
        raise ConfigError("experiment", f"has no result in {folder}: {command}")
    if name != "all" and name not in by_name:
        raise ConfigError("experiment", f"cannot be {name!r}{nearest(name, by_name)}")
    chosen = [path for each, paths in by_name.items() if name in ("all", each) for path in paths]
    runs = {run for path in chosen for run in _runs_of(path, folder)}
    return Found(sorted(runs), chosen, [], [])


def _runs_of(path: Path, folder: Path) -> list[Path]:
    """The run folders of an experiment's members; none of a file that cannot be read, which its
    part of the page says."""
    try:
        members = json.loads(path.read_text(encoding="utf-8"))["members"]
        runs = [run_of(folder, member["run"]) for member in members]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []
    return [run for run in runs if run is not None]


def anchor(kind: str, path: Path) -> str:
    """The id of a part in the page, by its kind and its file or folder."""
    return f"{kind}-{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:10]}"


def run_of(folder: Path, run: str) -> Path | None:
    """The folder of a run that a result names by path or name: where it was, or in `folder`;
    None where it is not there any more."""
    path = Path(run)
    places = (path, folder / path.name, folder / "shipped" / path.name)
    return next((place for place in places if is_run(place)), None)
