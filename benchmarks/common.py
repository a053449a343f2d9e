"""Shared by the benchmarks: their command, the header of reports, paired ratios."""

from __future__ import annotations

import platform
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, TypeVar

import torch

from looplab.conf.command import Settings, described, run_command
from looplab.conf.mistakes import one_line
from looplab.training.run_folder.files import write_json
from looplab.training.run_folder.run import versions

_T = TypeVar("_T", bound=Settings)


class Ratio(NamedTuple):
    """Quartiles of paired ratios."""

    low: float
    middle: float
    high: float

    def __format__(self, width: str) -> str:
        return format(f"{self.middle:.3g} ({self.low:.3g} to {self.high:.3g})", width)


def run_benchmark(
    name: str,
    cls: type[_T],
    words: Sequence[str],
    text: str | None,
    measure: Callable[[_T], None],
    when_stopped: str = "stopped",
) -> int:
    """Run the benchmark of this name with the settings `cls`; returns the exit code. Its help is
    `text`, the module's, and the settings; `when_stopped` is printed after a signal."""
    help_text = f"{text}\nSettings, with their defaults:\n{described(cls)}\n"
    return run_command(f"benchmarks.{name}", cls, words, lambda: help_text, measure, when_stopped)


def paired_ratio(theirs: Sequence[float], ours: Sequence[float]) -> Ratio:
    """theirs / ours, pair by pair, measured in turn so that a slow phase of the machine slows both.
    The quartiles of one pair are its ratio."""
    ratios = [a / b for a, b in zip(theirs, ours, strict=True)]
    if len(ratios) == 1:
        return Ratio(*ratios * 3)
    return Ratio(*statistics.quantiles(ratios, n=4, method="inclusive"))


def write_report(file: str | None, device: torch.device, content: Mapping[str, object]) -> None:
    """Write `content` as JSON after date, versions, code, command and machine; make the folder.
    Nothing where there is no file."""
    if file is None:
        return
    path = Path(file)
    path.parent.mkdir(parents=True, exist_ok=True)
    header = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        **versions(),
        "command": " ".join(_without_folders(sys.argv)),
        "triton": _triton_version(),
        "device": device_name(device),
        "threads": torch.get_num_threads(),
    }
    write_json(path, {**header, **content})


def _without_folders(words: Sequence[str]) -> Iterator[str]:
    """The words of the command, paths without their folders: reports are shared."""
    for word in words:
        key, sign, path = ("", "", word) if Path(word).is_absolute() else word.partition("=")
        yield key + sign + (Path(path).name if Path(path).is_absolute() else path)


def reason(error: Exception) -> str:
    """An error as one line."""
    return f"{type(error).__name__}: " + one_line(error)


def device_name(device: torch.device) -> str:
    """The name of the card, or of the processor."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _triton_version() -> str | None:
    try:
        import triton
    except ImportError:
        return None
    return triton.__version__
