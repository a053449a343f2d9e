"""Arrays on disk under a key of what they were computed from, so that nothing is computed twice and
an interrupted computation resumes. (joblib.Memory keeps whole calls, as pickles.)

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

from reloop.conf.checksum import checksum_of
from reloop.training.progress import Progress
from reloop.training.run_folder.files import write_arrays

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
                    parts = [_concatenate(parts)]
                    self._write(path, key, parts[0])
                    write_time = time.monotonic()
        return parts[0]

    def _write(self, path: Path, key: str, arrays: Arrays) -> None:
        self.folder.mkdir(exist_ok=True)
        write_arrays(path, {**arrays, _CHECKSUM: _checksum(key, arrays)}, compressed=False)


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


def _concatenate(parts: Iterable[Arrays]) -> Arrays:
    parts = list(parts)
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _length(arrays: Arrays) -> int:
    return len(next(iter(arrays.values()))) if arrays else 0
