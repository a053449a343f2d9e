"""How much memory this machine has, and whether it has a GPU: without torch, on Linux and macOS."""

from __future__ import annotations

import os
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")
# PyTorch's messages: of the CPU's allocator, of CUDA's, of CUDA's libraries.
_FULL = ("can't allocate memory", "out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
# Where Linux (and WSL) show an NVIDIA GPU; an Apple GPU shares the machine's memory.
_NVIDIA = ("/dev/nvidia0", "/dev/dxg", "/proc/driver/nvidia/gpus")


def total_memory() -> int | None:
    """The most bytes that this process can have: the machine's, or the limit of its control group.
    None where neither is known."""
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
    """The control groups of this process, as paths below their mount point."""
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    kinds = [line.split(":", 2) for line in lines if line.count(":") >= 2]
    return [path for _, kind, path in kinds if kind == "" or "memory" in kind.split(",")]


def _of_groups(mount: Path, groups: list[str]) -> list[int]:
    """The limits of these groups and of all their parents, from the file of version 2 or of
    version 1. Within a container, the mount's root is the container's own group."""
    limits = []
    for group in ["/", *groups]:
        group_path = Path(group.strip("/"))
        for path in (group_path, *group_path.parents):
            for file in (mount / path / "memory.max", mount / "memory" / path / _VERSION_1):
                try:
                    limits.append(int(file.read_text(encoding="ascii")))
                except (OSError, ValueError):  # absent, or "max"
                    continue
    return limits


_VERSION_1 = "memory.limit_in_bytes"


def out_of_memory(error: BaseException) -> bool:
    """Whether this error says that memory ran out."""
    if isinstance(error, MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in _FULL)
