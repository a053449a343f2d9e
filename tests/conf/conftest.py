"""Machines of other sizes than this one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from reloop.conf.checks import sizes

Machine = Callable[..., None]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """machine(memory=16 * 10**9, gpu=True): so many bytes (None where that is not known), and a GPU
    or none."""

    def machine(memory: int | None, *, gpu: bool = False) -> None:
        for name, value in (("total_memory", memory), ("has_gpu", gpu)):
            monkeypatch.setattr(sizes, name, lambda value=value: value)

    return machine
