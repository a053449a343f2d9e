"""Results in files that are named after what was asked for, so that none replaces another, and are
computed once; altered files are recognised and not used. And values prompt by prompt under a key of
what they were computed from, so that an interrupted computation goes on. (joblib.Memory keeps whole
calls, as pickles.)

result = kept(run.path / "evaluations", "evaluation", request, compute)
shown(run.path / "evaluation.json", "evaluation", result, draw)
errors = RowCache(run.path / "cache").rows("lasso", {"prompts": digest(xs)}, 1280, 128, compute)
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from looplab.conf.checksum import key_of
from looplab.training.progress import Progress
from looplab.training.run_folder.files import read_record, write_arrays, write_record

from .plain import Content

if TYPE_CHECKING:
    from torch import Tensor

Arrays = dict[str, NDArray[Any]]
_CODE = "sources"  # the part of a request that edits of the code change
_SECONDS = "seconds_taken"


def kept(
    folder: Path,
    kind: str,
    request: Mapping[str, object],
    compute: Callable[[], tuple[Mapping[str, object], Arrays | None]],
) -> Any:
    """The result of a request, as JSON gives it with the request and its `key`: the one in the
    folder, or else the one that `compute` returns, which is stored there with its arrays.

    A request has plain values: all that the result depends on, digests of weights and code among
    them. Where other code has answered the same request a line says that it is computed again, and
    how long that took.
    """
    result = found(folder, kind, request)
    if result is None:
        _say_again(folder, kind, request)
        begun = time.monotonic()
        computed, arrays = compute()
        seconds = round(time.monotonic() - begun, 1)
        path = folder / f"{key_of(request)}.json"
        folder.mkdir(parents=True, exist_ok=True)
        content = dict(request) | dict(computed) | {"key": path.stem, _SECONDS: seconds}
        # The arrays first: a result that is there has them, whenever this is interrupted.
        if arrays is not None:
            content["arrays_sha256"] = write_arrays(path.with_suffix(".npz"), arrays)
        write_record(path, kind, content)
        # As JSON gives it back, with lists for tuples: the same the first time as the second.
        result = _without_time(read_record(path, kind).content)
    return result


def _without_time(result: Any) -> Any:
    """A stored result, None for none, without the time that it took: that is of one machine."""
    return result and {key: value for key, value in result.items() if key != _SECONDS}


def _say_again(folder: Path, kind: str, request: Mapping[str, object]) -> None:
    """Print that a request is answered again, where an answer by other code is in the folder."""
    if _CODE not in request:
        return
    asked = json.loads(json.dumps(dict(request) | {_CODE: None}))
    # The newest first: how long it took then is the best guess for now.
    for path in sorted(folder.glob("*.json"), key=lambda path: -path.stat().st_mtime):
        earlier = read_record(path, kind).content or {}
        # The same request but for the code.
        if asked == {key: earlier.get(key) for key in asked} | {_CODE: None}:
            seconds = earlier.get(_SECONDS)
            took = "" if seconds is None else f"; it took {seconds:,.0f} s then"
            print(f"{path} was made by other code: made again{took}", flush=True)
            return


def found(folder: Path, kind: str, request: Mapping[str, object]) -> Any:
    """The stored result of a request; None if there is none, or if its files cannot be used, in
    which case a line is printed."""
    path = folder / f"{key_of(request)}.json"
    arrays = path.with_suffix(".npz")
    result, problem, _ = read_record(path, kind)
    if result and result.get("arrays_sha256") not in (None, _sha256(arrays)):
        problem = f"{arrays} is missing or was altered"
    if problem:
        print(f"{problem}; computed again", flush=True)
        return None
    return _without_time(result)


def arrays_of(folder: Path, result: Content) -> Arrays:
    """The arrays stored with a result."""
    with np.load(folder / f"{result['key']}.npz", allow_pickle=False) as file:
        return dict(file)


def shown(
    path: Path, kind: str, content: Mapping[str, object], make: Callable[[], Iterable[Path]]
) -> list[Path]:
    """Write what is shown at `path`, with the sha256 of the files that `make` writes in or below
    its folder. Nothing is written where all of it is there unaltered. Returns these files. There is
    nothing at `path` while they are made: the files beside it always belong to it."""
    record = read_record(path, kind)
    plain = json.loads(json.dumps(content))
    stored = record.content or {}
    digests = stored.pop("files", {})
    if record.problem:
        print(f"{record.problem}; made again", flush=True)
    elif record.sealed and stored == plain:
        others = altered(path.parent, digests)
        if not others:
            return [path.parent / name for name in digests]
        print(f"{path.parent}: {', '.join(others)} missing or altered; made again", flush=True)
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    files = list(make())
    digests = {file.relative_to(path.parent).as_posix(): _sha256(file) for file in files}
    write_record(path, kind, plain | {"files": digests})
    return files


def altered(folder: Path, digests: Mapping[str, str]) -> list[str]:
    """The names of the files that are missing in a folder or have another sha256 than stated."""
    return [name for name, digest in digests.items() if _sha256(folder / name) != digest]


def _sha256(path: Path) -> str:
    """The sha256 of a file's content; "missing" without one."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "missing"


class RowCache:
    """Computations of one or more values per prompt, written once a second. The folder may be
    deleted at any time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def rows(
        self,
        name: str,
        content: Mapping[str, object],
        total: int,
        chunk: int,
        compute: Callable[[slice], Arrays],
    ) -> Arrays:
        """The arrays of `compute` for all `total` prompts, each of shape [total, ...].

        `compute` is called for at most `chunk` prompts at a time. Those in the cache under the same
        `content` (plain values, digests for tensors) are not computed again.
        """
        key = key_of({"name": name} | dict(content))
        path = self.folder / f"{name}-{key}.npz"
        arrays = _read(path)
        write_time = time.monotonic()
        # Rows are computed in order, so that a file of n rows has those of the first n prompts.
        done = _length(arrays)
        with Progress(total, name, "prompt", done=done) as progress:
            while done < total:
                new = compute(slice(done, min(done + chunk, total)))
                progress.update(_length(new))
                if arrays:
                    new = {part: np.concatenate((arrays[part], new[part])) for part in new}
                arrays = new
                done = _length(arrays)
                if done == total or time.monotonic() - write_time > 1:
                    self.folder.mkdir(exist_ok=True)
                    write_arrays(path, arrays, compressed=False)
                    write_time = time.monotonic()
        return arrays


def digest(*tensors: Tensor) -> str:
    """The sha256 of the shapes and values of tensors."""
    sha256 = hashlib.sha256()
    for tensor in tensors:
        sha256.update(str(tuple(tensor.shape)).encode())
        sha256.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return sha256.hexdigest()


def _read(path: Path) -> Arrays:
    """The arrays in a file of the cache, none where there is no file or a damaged one."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return dict(file)
    except FileNotFoundError:
        return {}
    except Exception:  # numpy and zipfile raise many kinds for a file that is no .npz
        print(f"{path} is damaged; computed again", flush=True)
        return {}


def _length(arrays: Arrays) -> int:
    return len(next(iter(arrays.values()), ()))
