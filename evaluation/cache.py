"""Arrays kept on disk under what they were computed from, so that nothing is computed twice and an
interrupted computation goes on where it stopped.

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
_BETWEEN_WRITES = 1.0  # seconds
_CHECKSUM = "checksum"  # the name of an array that no computation has


class Cache:
    """Computations of one value or more a prompt, in one folder. It may be deleted at any time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def rows(
        self,
        name: str,
        content: Mapping[str, Any],
        total: int,
        chunk: int,
        compute: Callable[[slice], Arrays],
    ) -> Arrays:
        """What `compute` gives for all `total` prompts, each array of shape [total, ...].

        `compute` is asked for at most `chunk` prompts at a time, and only for those that were not
        computed before from the same `content` (plain values, digests for tensors).
        """
        key = checksum_of({"name": name, **content})
        path = self.folder / f"{name}-{key[:12]}.npz"
        done, problem = _read(path, key, total)
        if problem:
            print(f"{problem}; computed again", flush=True)
        parts = [done] if done else []
        first, written = _length(done), time.monotonic()
        with Progress(total, name, "prompt", done=first) as progress:
            while first < total:
                parts.append(compute(slice(first, min(first + chunk, total))))
                progress.update(_length(parts[-1]))
                first += _length(parts[-1])
                if first == total or time.monotonic() - written > _BETWEEN_WRITES:
                    parts = [_joined(parts)]
                    self._write(path, key, parts[0])
                    written = time.monotonic()
        return parts[0]

    def _write(self, path: Path, key: str, arrays: Arrays) -> None:
        self.folder.mkdir(exist_ok=True)
        write_arrays(path, {**arrays, _CHECKSUM: _checksum(key, arrays)}, compressed=False)


def digest(*tensors: Tensor) -> str:
    """A name for the values of tensors."""
    total = hashlib.sha256()
    for tensor in tensors:
        total.update(str(tuple(tensor.shape)).encode())
        total.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return total.hexdigest()


def _read(path: Path, key: str, total: int) -> tuple[Arrays, str]:
    """The rows that stand at `path`, none where there is no file; and what is wrong with a file
    that was damaged or altered, or is of something else."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays: Arrays = dict(file)
        stated = arrays.pop(_CHECKSUM)
        fits = stated.tobytes() == _checksum(key, arrays).tobytes()
    except FileNotFoundError:
        return {}, ""
    except Exception:  # whatever numpy and zipfile raise for what is no such file
        return {}, f"{path} is damaged"
    if not fits:
        return {}, f"{path} was altered"
    lengths = {len(array) for array in arrays.values() if array.ndim}
    whole = len(lengths) == 1 and lengths.pop() <= total
    return (arrays, "") if whole else ({}, f"{path} has other rows")


def _checksum(key: str, arrays: Arrays) -> NDArray[Any]:
    """Over what was asked for and every array's name, type, shape and values."""
    total = hashlib.sha256(key.encode())
    for name, array in sorted(arrays.items()):
        total.update(f"{name} {array.dtype.str} {array.shape}".encode())
        total.update(np.ascontiguousarray(array).tobytes())
    return np.frombuffer(total.digest(), dtype=np.uint8)


def _joined(parts: Iterable[Arrays]) -> Arrays:
    parts = list(parts)
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _length(arrays: Arrays) -> int:
    return len(next(iter(arrays.values()))) if arrays else 0
