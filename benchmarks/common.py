"""Shared by the benchmarks: their command, the header of reports, paired ratios."""

import platform
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
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

    def __str__(self) -> str:
        return f"{self.middle:.3g} ({self.low:.3g} to {self.high:.3g})"


def run_benchmark(
    name: str, cls: type[_T], words: Sequence[str], text: str | None, measure: Callable[[_T], None]
) -> int:
    """Run the benchmark of this name with the settings `cls`; returns the exit code. Its help is
    `text`, the module's, and the settings."""
    help_text = f"{text or ''}\nSettings, with their defaults:\n{described(cls)}\n"
    return run_command(f"benchmarks.{name}", cls, words, lambda: help_text, measure)


def paired_ratio(theirs: Sequence[float], ours: Sequence[float]) -> Ratio:
    """theirs / ours, pair by pair, measured in turn so that a slow phase of the machine slows
    both."""
    # Of the ratios of each turn, not the ratio of medians: pairs share the machine's phase.
    quartiles = np.percentile(np.divide(theirs, ours), (25, 50, 75))
    return Ratio(*map(float, quartiles))


def write_report(file: str | None, device: torch.device, content: Mapping[str, object]) -> None:
    """Write `content` as JSON after date, versions, code, command and machine; make the folder.
    Nothing where there is no file."""
    if file is None:
        return
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    report: dict[str, object] = {"date": datetime.now(UTC).isoformat(timespec="seconds")}
    report |= versions()
    report["triton"] = version("triton") if find_spec("triton") else None
    report["device"] = device_name(device)
    report |= content
    write_json(Path(file), report)


def reason(error: Exception) -> str:
    """An error as one line."""
    return f"{type(error).__name__}: " + one_line(error)


def device_name(device: torch.device) -> str:
    """The name of the card, or of the processor."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    facts = Path("/proc/cpuinfo")
    text = facts.read_text(encoding="utf-8") if facts.exists() else ""
    match = re.search(r"^model name\s*: (.*)", text, re.MULTILINE)
    return match[1] if match else platform.processor() or platform.machine()
