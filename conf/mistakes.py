"""Mistakes are reported in one line: the key, what was expected, and the nearest right spelling."""

import math
import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

_DEVICES = ("auto", "cpu", "cuda")
# What other codes and habits call a setting, in lower case: the last part of its key here.
_NAMES_OF_OTHER_CODES = {
    "lr": "learning_rate",
    "epochs": "steps",
    "iters": "steps",
    "hidden_size": "n_embd",
    "loop": "b",
    "loops": "b",
    "n_loops": "b",
    "num_loops": "b",
    "window": "T",
    "n_loop_window": "T",
}
# What is typed as a setting or as an action, and what stands in its place.
_ANSWERS = {
    "resume": "the same command, given again, resumes",
    "continue": "the same command, given again, resumes",
    "plot": "action=evaluate run=runs/NAME draws",
    "draw": "action=evaluate run=runs/NAME draws",
    "gpu": "device=cuda:0 is the first GPU",
    "cuda": "device=cuda:0 is the first GPU",
}
MOST = 2**62  # seeds and counts must be below it


class ConfigError(ValueError):
    """A mistake in a setting: the key, and what was expected. One line for the user.

    Examples
    --------
    >>> from looplab import Config
    >>> Config.of("model=loped")
    Traceback (most recent call last):
    looplab.conf.mistakes.ConfigError: model cannot be 'loped'; did you mean 'looped'?
    """

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(" ".join(f"{key} {problem}".splitlines()))
        self.key = key
        self.problem = problem


class RunError(RuntimeError):
    """A run cannot go on, or a file cannot be used. One line for the user.

    Examples
    --------
    >>> from looplab import load_run
    >>> load_run("shipped/linear-pairs").errors()  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    looplab.conf.mistakes.RunError: runs/… is not evaluated at step 20,000: evaluate(run) first
    """


class CheckpointError(RuntimeError):
    """A checkpoint that cannot be read: the file, and the problem. One line."""


class HeldElsewhere(RunError):
    """Another process works in the folder: nothing has failed, and a retry works when the file
    `lock` is free."""

    def __init__(self, folder: Path, holder: str, lock: Path) -> None:
        super().__init__(f"{folder} is being worked on by {holder}")
        self.holder = holder
        self.lock = lock


class EndedElsewhere(RunError):
    """Another process of the same training ended it, and says why: this one has nothing to say."""


def closest(name: str, names: Iterable[str], cutoff: float = 0.6) -> str:
    """The nearest to `name` of `names`; '' if none is within the cutoff. Case and leading zeros of
    numbers do not count."""
    folded = {_folded(option): option for option in names}
    matches = get_close_matches(_folded(name), folded, n=1, cutoff=cutoff)
    return folded[matches[0]] if matches else ""


def _folded(name: str) -> str:
    """A spelling that 'ICL-08' and 'icl-8' share: lower case, numbers without leading zeros."""
    return re.sub(r"(?<!\d)0+(?=\d)", "", name.lower())


def nearest(name: str, names: Iterable[str]) -> str:
    """'; did you mean …?' with the nearest of `names` to `name`, or the list of all of them."""
    options = sorted(names)
    match = closest(name, options)
    if not match and name:
        match = next((option for option in options if name in option), "")
    return f"; did you mean {match!r}?" if match else f"; expected one of {', '.join(options)}"


def nearest_action(action: str, names: Iterable[str]) -> str:
    """As `nearest`, of actions: a few that others expect are answered."""
    answer = _ANSWERS.get(action.lower())
    return f"; {answer}" if answer else nearest(action, names)


def nearest_key(key: str, names: Iterable[str]) -> str:
    """'; did you mean …?' with the setting among `names` that is nearest by its last part, first in
    the group that is named; else a list of them, or where there is one. A few names that other
    codes have are known."""
    options = list(names)
    group, _, last = key.rpartition(".")
    if answer := _ANSWERS.get(last.lower()):
        return f"; {answer}"
    of_group = [name for name in options if group and name.startswith(f"{group}.")]
    match = closest(last, {name.rpartition(".")[2] for name in of_group}, cutoff=0.8)
    lasts = {name.rpartition(".")[2] for name in options}
    if not match:
        known = _NAMES_OF_OTHER_CODES.get(last.lower())
        match = known if known in lasts else closest(last, lasts, cutoff=0.7)
    if match:
        same = [name for name in options if name.rpartition(".")[2] == match]
        return f"; did you mean {closest(key, same, cutoff=0)!r}?"
    many = "; --help and docs/reference.md list them"
    return many if len(options) > 30 else nearest(key, options)


def check_choice(
    key: str, value: Any, options: Iterable[str], hint: Callable[[str], str] | None = None
) -> None:
    """Raises ConfigError where `value` is none of the options, with what `hint` says of the key, if
    anything, after the nearest one."""
    if value not in options:
        more = hint(key) if hint else ""
        raise ConfigError(key, f"cannot be {value!r}{nearest(str(value), options)}{more}")


def check_count(key: str, value: float, least: int) -> None:
    """Raises ConfigError for a number below `least`, not finite, or of 2^62 and above."""
    # Not math.isfinite: an integer may be too large for a float.
    # nan is the one number that is not itself; −∞ is below every `least`.
    if value != value or value == math.inf:
        raise ConfigError(key, f"must be finite, got {value}")
    if value < least:
        raise ConfigError(key, f"must be at least {least}, got {value}")
    if value >= MOST:
        raise ConfigError(key, f"must be below 2^62, got {value}")


def check_device(key: str, device: str) -> None:
    """Raises ConfigError for a name that no machine has a device of."""
    kind, colon, index = device.partition(":")
    if kind not in _DEVICES or (colon and (kind == "auto" or not index.isdecimal())):
        known = ", ".join(_DEVICES)
        raise ConfigError(key, f"must be one of {known} or numbered as cuda:1, got {device!r}")


def check_path(key: str, path: str) -> None:
    """Raises ConfigError for a path that is empty or has a NUL character."""
    if not path.strip() or "\0" in path:
        raise ConfigError(key, f"must name a file or folder, got {path!r}")


def check_name(key: str, name: str) -> None:
    """Raises ConfigError for a name that no folder's name can begin with. An empty one is
    allowed: none was given."""
    if name and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}", name):
        problem = "must be up to 60 letters, digits, '-', '_' and '.', the first a letter or digit"
        raise ConfigError(key, f"{problem}; got {name!r}")


def one_line(error: BaseException) -> str:
    """The message of an error, without line breaks."""
    return " ".join(str(error).split())


def out_of_memory(error: BaseException) -> bool:
    """Says whether this error says that memory ran out: Python's, the CPU allocator's of PyTorch,
    CUDA's or that of its libraries."""
    signs = ("can't allocate memory", "out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
    if isinstance(error, RuntimeError) and not isinstance(error, RunError):
        return any(sign in str(error) for sign in signs)
    return isinstance(error, MemoryError)
