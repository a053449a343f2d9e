"""Arrays kept on disk under what they were computed from, so that nothing is computed twice and an
interrupted computation goes on where it stopped.

errors = Cache(run.path / "cache").rows("lasso", {"prompts": digest(xs)}, 1280, 128, compute)
"""

from __future__ import annotations

import hashlib
import io
import json
import time
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from tqdm import tqdm

from training.files import write_bytes

Arrays = dict[str, NDArray[Any]]
_BETWEEN_WRITES = 1.0  # seconds


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
        text = json.dumps({"name": name, **content}, sort_keys=True).encode()
        path = self.folder / f"{name}-{hashlib.sha256(text).hexdigest()[:12]}.npz"
        done = _read(path, total)
        parts = [done] if done else []
        first, written = _length(done), time.monotonic()
        with tqdm(
            total=total, initial=first, desc=name, unit="prompt", delay=2, leave=False, disable=None
        ) as bar:
            while first < total:
                parts.append(compute(slice(first, min(first + chunk, total))))
                bar.update(_length(parts[-1]))
                first += _length(parts[-1])
                if first == total or time.monotonic() - written > _BETWEEN_WRITES:
                    parts = [_joined(parts)]
                    self._write(path, parts[0])
                    written = time.monotonic()
        return parts[0]

    def _write(self, path: Path, arrays: Arrays) -> None:
        self.folder.mkdir(exist_ok=True)
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **arrays)
        write_bytes(path, buffer.getvalue())


def digest(*tensors: Tensor) -> str:
    """A name for the values of tensors."""
    total = hashlib.sha256()
    for tensor in tensors:
        total.update(str(tuple(tensor.shape)).encode())
        total.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return total.hexdigest()


def _read(path: Path, total: int) -> Arrays:
    """What stands at `path`; nothing where there is no file, or one that somebody damaged."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):
        return {}
    lengths = {len(array) for array in arrays.values() if array.ndim}
    return arrays if len(lengths) == 1 and lengths.pop() <= total else {}


def _joined(parts: Iterable[Arrays]) -> Arrays:
    parts = list(parts)
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _length(arrays: Arrays) -> int:
    return len(next(iter(arrays.values()))) if arrays else 0
