"""Results kept in a folder, each in files of its own under what was asked for, so that none
replaces another; what was altered is recognised and not used.

kept = Artefacts(run.path / "evaluations", "evaluation")
result = kept.find(asked) or kept.keep(asked, compute(), arrays)
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from reloop.conf.checksum import key_of
from reloop.training.run_folder.files import read_record, write_arrays, write_record

from .cache import Arrays


class Artefacts:
    """Results of one kind. `asked` are plain values: all that a result depends on. The files are
    named after a hash of it, `name` before it where there is one."""

    def __init__(self, folder: Path, kind: str, name: str = "") -> None:
        self.folder, self.kind, self.name = folder, kind, name

    def path(self, asked: Mapping[str, Any]) -> Path:
        """The JSON of what is asked for; its arrays stand beside it in a .npz."""
        key = key_of(asked)
        return self.folder / f"{f'{self.name}-{key}' if self.name else key}.json"

    def find(self, asked: Mapping[str, Any]) -> dict[str, Any] | None:
        """The result that was kept for this, whole and unaltered; None where there is none. A line
        is printed on one that cannot be used."""
        path = self.path(asked)
        result, problem = self._read(path)
        if result is not None and result["key"] != path.stem:
            problem = f"{path} answers something else"
        if problem:
            print(f"{problem}; computed again", flush=True)
            return None
        return result

    def keep(
        self, asked: Mapping[str, Any], result: Mapping[str, Any], arrays: Arrays | None = None
    ) -> dict[str, Any]:
        """Write a result with what was asked for, and its arrays; the same result, as `find` gives
        it from now on."""
        path = self.path(asked)
        self.folder.mkdir(parents=True, exist_ok=True)
        content: dict[str, Any] = {**asked, **result, "key": path.stem}
        if arrays is not None:
            content["arrays_sha256"] = write_arrays(path.with_suffix(".npz"), arrays)
        write_record(path, self.kind, content)
        found = read_record(path, self.kind).content
        assert found is not None
        return found

    def all(self) -> list[dict[str, Any]]:
        """Every result that is whole and unaltered, the oldest first."""
        found = []
        for path in sorted(self.folder.glob("*.json"), key=_changed):
            result, _ = self._read(path)
            if result is not None and result["key"] == path.stem:
                found.append(result)
        return found

    def arrays(self, result: Mapping[str, Any]) -> Arrays:
        """The arrays that were kept with a result."""
        with np.load(self.folder / f"{result['key']}.npz", allow_pickle=False) as file:
            return dict(file)

    def _read(self, path: Path) -> tuple[dict[str, Any] | None, str]:
        found = read_record(path, self.kind)
        if found.content is None or not found.sealed:
            return None, found.problem
        digest = found.content.get("arrays_sha256")
        if digest is not None and sha256_of(path.with_suffix(".npz")) != digest:
            return None, f"{path.with_suffix('.npz')} is missing or was altered"
        return (found.content, "") if "key" in found.content else (None, "")


def show(path: Path, kind: str, content: Mapping[str, Any], files: Iterable[Path]) -> None:
    """Write what is shown of results at `path`, with the sha256 of each file that stands beside it
    or below its folder."""
    sums = {file.relative_to(path.parent).as_posix(): sha256_of(file) for file in files}
    write_record(path, kind, {**content, "files": sums})


def is_shown(path: Path, kind: str, expected: Mapping[str, Any]) -> bool:
    """Whether what `show` wrote holds all that is expected, and it and its files are unaltered; a
    line is printed where they are not."""
    found = read_record(path, kind)
    if found.problem:
        print(f"{found.problem}; computed again", flush=True)
    shown = found.content or {}
    if not found.sealed or any(shown.get(key, "") != value for key, value in expected.items()):
        return False
    altered = [
        name for name, sum_ in shown["files"].items() if sha256_of(path.parent / name) != sum_
    ]
    if altered:
        print(f"{path.parent}: {', '.join(altered)} missing or altered; computed again", flush=True)
    return not altered


def sha256_of(path: Path) -> str | None:
    """Of a file's content; None where it cannot be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
