"""Results in a folder, each in its own files named after its request, so that none replaces
another; altered files are recognised and not used. And arrays on disk under a key of what they
were computed from, so that nothing is computed twice and an interrupted computation resumes.
(joblib.Memory keeps whole calls, as pickles.)

artefacts = Artefacts(run.path / "evaluations", "evaluation")
result = artefacts.find(request) or artefacts.keep(request, compute(), arrays)
errors = Cache(run.path / "cache").rows("lasso", {"prompts": digest(xs)}, 1280, 128, compute)
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from looplab.conf.checksum import checksum_of, key_of
from looplab.training.progress import Progress
from looplab.training.run_folder.files import read_record, write_arrays, write_record

Arrays = dict[str, NDArray[Any]]
_CHECKSUM = "checksum"  # the name of an array that no computation returns


class Cache:
    """Computations of one or more values per prompt, written every `between_writes` seconds. The
    folder may be deleted at any time."""

    def __init__(self, folder: Path, between_writes: float = 1.0) -> None:
        self.folder, self.between_writes = folder, between_writes

    def rows(
        self,
        name: str,
        content: Mapping[str, object],
        total: int,
        chunk: int,
        compute: Callable[[slice], Arrays],
    ) -> Arrays:
        """The arrays of `compute` for all `total` prompts, each of shape [total, ...].

        `compute` is called for at most `chunk` prompts at a time, and only for those that are not
        in the cache under the same `content` (plain values, digests for tensors).
        """
        key = checksum_of({"name": name, **content})
        path = self.folder / f"{name}-{key[:12]}.npz"
        cached, problem = _read(path, key, total)
        if problem:
            print(f"{problem}; computed again", flush=True)
        parts = [cached] if cached else []
        first, write_time = _length(cached), time.monotonic()
        with Progress(total, name, "prompt", done=first) as progress:
            while first < total:
                parts.append(compute(slice(first, min(first + chunk, total))))
                progress.update(_length(parts[-1]))
                first += _length(parts[-1])
                if first == total or time.monotonic() - write_time > self.between_writes:
                    parts = [{n: np.concatenate([p[n] for p in parts]) for n in parts[0]}]
                    self.folder.mkdir(exist_ok=True)
                    sealed = {**parts[0], _CHECKSUM: _checksum(key, parts[0])}
                    write_arrays(path, sealed, compressed=False)
                    write_time = time.monotonic()
        return parts[0]


def digest(*tensors: Tensor) -> str:
    """The sha256 of the shapes and values of tensors."""
    sha256 = hashlib.sha256()
    for tensor in tensors:
        sha256.update(str(tuple(tensor.shape)).encode())
        sha256.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return sha256.hexdigest()


def _read(path: Path, key: str, total: int) -> tuple[Arrays, str]:
    """The rows in the file at `path`, none if there is no file; and what is wrong with a file that
    was damaged or altered, or holds other rows."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays: Arrays = dict(file)
        checksum = arrays.pop(_CHECKSUM)
        matches = checksum.tobytes() == _checksum(key, arrays).tobytes()
    except FileNotFoundError:
        return {}, ""
    except Exception:  # numpy and zipfile raise many kinds for a file that is no .npz
        return {}, f"{path} is damaged"
    if not matches:
        return {}, f"{path} was altered"
    lengths = {len(array) for array in arrays.values() if array.ndim}
    complete = len(lengths) == 1 and lengths.pop() <= total
    return (arrays, "") if complete else ({}, f"{path} has other rows")


def _checksum(key: str, arrays: Arrays) -> NDArray[Any]:
    """The sha256 of the key and of every array's name, type, shape and values."""
    sha256 = hashlib.sha256(key.encode())
    for name, array in sorted(arrays.items()):
        sha256.update(f"{name} {array.dtype.str} {array.shape}".encode())
        sha256.update(np.ascontiguousarray(array).tobytes())
    return np.frombuffer(sha256.digest(), dtype=np.uint8)


def _length(arrays: Arrays) -> int:
    return len(next(iter(arrays.values()))) if arrays else 0


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
        for path in sorted(self.folder.glob("*.json"), key=lambda path: path.stat().st_mtime):
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
