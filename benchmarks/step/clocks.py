"""The clocks of a GPU, which fall when it is hot or draws much power."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import NamedTuple

import torch

_FIELDS = "clocks.sm,clocks.mem,temperature.gpu,power.draw"
_SECONDS = 10.0  # for nvidia-smi to answer


class Clocks(NamedTuple):
    """Of the multiprocessors and of the memory in MHz, degrees Celsius, watts; None for what the
    card does not tell."""

    sm_mhz: float | None
    memory_mhz: float | None
    celsius: float | None
    watts: float | None


def read_clocks(device: torch.device) -> Clocks | None:
    """The clocks of an NVIDIA GPU now, from nvidia-smi; None where it is not there or fails."""
    uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None)
    which = ["--id=GPU-" + str(uuid)] if uuid else []
    command = ["nvidia-smi", f"--query-gpu={_FIELDS}", "--format=csv,noheader,nounits", *which]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_SECONDS)
    except (OSError, subprocess.SubprocessError):
        return None
    lines = done.stdout.splitlines()
    return parse_clocks(lines[0]) if lines else None


def parse_clocks(line: str) -> Clocks | None:
    """The clocks in a line of nvidia-smi's table; None for another number of columns."""
    cells = line.split(",")
    return Clocks(*map(_number, cells)) if len(cells) == len(Clocks._fields) else None


def span(clocks: Sequence[Clocks]) -> str:
    """The least and the largest of each in words; '' where there is none."""
    parts = []
    for name, unit in zip(Clocks._fields, ("MHz SM", "MHz memory", "°C", "W"), strict=True):
        values = [value for each in clocks if (value := getattr(each, name)) is not None]
        if values:
            parts.append(f"{min(values):.0f} to {max(values):.0f} {unit}")
    return ", ".join(parts)


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:  # [N/A]
        return None
