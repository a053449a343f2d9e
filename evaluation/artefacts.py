"""Results in a folder, each in its own files named after its request, so that none replaces
another; altered files are recognised and not used.

artefacts = Artefacts(run.path / "evaluations", "evaluation")
result = artefacts.find(request) or artefacts.keep(request, compute(), arrays)
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
    """Results of one kind. A `request` holds plain values: all that a result depends on. The files
    are named after its hash, with `name` as a prefix if one is given."""

    def __init__(self, folder: Path, kind: str, name: str = "") -> None:
        self.folder, self.kind, self.name = folder, kind, name

    def path(self, request: Mapping[str, object]) -> Path:
        """The path of a request's JSON file; its arrays are in the .npz beside it."""
        key = key_of(request)
        return self.folder / f"{f'{self.name}-{key}' if self.name else key}.json"

    def find(self, request: Mapping[str, object]) -> Any:
        """The stored result of a request, as JSON gives it; None if there is none, or if its files
        cannot be used, in which case a line is printed."""
        path = self.path(request)
        result, problem = self._read(path)
        if result is not None and result["key"] != path.stem:
            problem = f"{path} is the result of another request"
        if problem:
            print(f"{problem}; computed again", flush=True)
            return None
        return result

    def keep(
        self,
        request: Mapping[str, object],
        result: Mapping[str, object],
        arrays: Arrays | None = None,
    ) -> Any:
        """Write a result with its request and arrays; returns the result as `find` gives it."""
        path = self.path(request)
        self.folder.mkdir(parents=True, exist_ok=True)
        content = {**request, **result, "key": path.stem}
        if arrays is not None:
            content["arrays_sha256"] = write_arrays(path.with_suffix(".npz"), arrays)
        write_record(path, self.kind, content)
        return read_record(path, self.kind).content

    def all(self) -> list[Any]:
        """Every undamaged and unaltered result, the oldest first."""
        results = []
        for path in sorted(self.folder.glob("*.json"), key=_modified_time):
            result, _ = self._read(path)
            if result is not None and result["key"] == path.stem:
                results.append(result)
        return results

    def arrays(self, key: str) -> Arrays:
        """The arrays stored with the result of this key."""
        with np.load(self.folder / f"{key}.npz", allow_pickle=False) as file:
            return dict(file)

    def _read(self, path: Path) -> tuple[dict[str, Any] | None, str]:
        record = read_record(path, self.kind)
        if record.content is None or not record.sealed:
            return None, record.problem
        digest = record.content.get("arrays_sha256")
        if digest is not None and sha256_of(path.with_suffix(".npz")) != digest:
            return None, f"{path.with_suffix('.npz')} is missing or was altered"
        return (record.content, "") if "key" in record.content else (None, "")


def show(path: Path, kind: str, content: Mapping[str, object], files: Iterable[Path]) -> None:
    """Write a summary of results at `path`, with the sha256 of each of `files` in or below its
    folder."""
    digests = {file.relative_to(path.parent).as_posix(): sha256_of(file) for file in files}
    write_record(path, kind, {**content, "files": digests})


def is_shown(path: Path, kind: str, expected: Mapping[str, object]) -> bool:
    """Whether the summary that `show` wrote holds the expected values, and it and its files are
    unaltered; a line is printed if they are not."""
    record = read_record(path, kind)
    if record.problem:
        print(f"{record.problem}; computed again", flush=True)
    content = record.content or {}
    if not record.sealed or any(content.get(key, "") != value for key, value in expected.items()):
        return False
    names = [
        name for name, digest in content["files"].items() if sha256_of(path.parent / name) != digest
    ]
    if names:
        print(f"{path.parent}: {', '.join(names)} missing or altered; computed again", flush=True)
    return not names


def sha256_of(path: Path) -> str | None:
    """The sha256 of a file's content; None if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def _modified_time(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
