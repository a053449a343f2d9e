"""The run folders in the folders that a user names. No torch here.

run_folders(["runs/A", "runs"])          # that run, and all other runs in runs/
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from reloop.conf.mistakes import ConfigError
from reloop.training.run_folder.find import is_run


def run_folders(paths: Sequence[str]) -> list[Path]:
    """Each path that is a run folder, and the run folders directly inside each that is not, except
    those that again=true set aside; each once.

    Raises ConfigError for a path that neither is a run folder nor holds any.
    """
    folders: dict[Path, Path] = {}
    for path in map(Path, paths):
        if not path.is_dir():
            raise ConfigError("runs", f"must name folders, got '{path}'")
        runs = [path] if is_run(path) else sorted(filter(_is_current, path.iterdir()))
        if not runs:
            raise ConfigError("runs", f"names {path}, which neither is a run nor holds any")
        for run in runs:
            folders.setdefault(run.resolve(), run)
    return list(folders.values())


def _is_current(path: Path) -> bool:
    return is_run(path) and not re.search(r"-before-\d+$", path.name)
