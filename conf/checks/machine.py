"""What memory this machine has, and whether it has a GPU: without torch, on Linux and macOS."""

from __future__ import annotations

import os
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")
# What PyTorch says of it: a CPU's allocator, CUDA's, CUDA's libraries.
_FULL = ("can't allocate memory", "out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
# Where Linux (and WSL) show a GPU of NVIDIA's; an Apple GPU shares the machine's own memory.
_NVIDIA = ("/dev/nvidia0", "/dev/dxg", "/proc/driver/nvidia/gpus")


def total_memory() -> int | None:
    """Bytes that this process can have at most: the machine's, or what its control group may take
    of them. None where neither is known."""
    limits = [_physical(), *_of_groups(_GROUPS, _own_groups())]
    return min((limit for limit in limits if limit), default=None)


def has_gpu() -> bool:
    """Whether there is an NVIDIA GPU that is not hidden."""
    return os.environ.get("CUDA_VISIBLE_DEVICES") != "" and any(map(os.path.exists, _NVIDIA))


def _physical() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError, AttributeError):
        return None


def _own_groups() -> list[str]:
    """The control groups that this process is in, as paths below where they are mounted."""
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    kinds = [line.split(":", 2) for line in lines if line.count(":") >= 2]
    return [path for _, kind, path in kinds if kind == "" or "memory" in kind.split(",")]


def _of_groups(mount: Path, groups: list[str]) -> list[int]:
    """The limits of these groups and of all that they are in: version 2's file, or version 1's.
    Within a container its own group is the root of what is mounted."""
    found = []
    for group in ["/", *groups]:
        place = Path(group.strip("/"))
        for each in (place, *place.parents):
            for name in (mount / each / "memory.max", mount / "memory" / each / _VERSION_1):
                try:
                    found.append(int(name.read_text(encoding="ascii")))
                except (OSError, ValueError):  # absent, or "max"
                    continue
    return found


_VERSION_1 = "memory.limit_in_bytes"


def out_of_memory(error: BaseException) -> bool:
    """Whether this error says that there was no memory left."""
    if isinstance(error, MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in _FULL)
