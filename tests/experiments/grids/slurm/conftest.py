"""A Slurm for the tests of this folder."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .one_node import NoSlurm, Slurm, one_node_slurm

_PACKAGES = Path(tempfile.gettempdir()) / "reloop-slurm"  # kept for the next time


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    """A Slurm of one node with two cores; skipped, with the reason, where it cannot be had."""
    pytest.importorskip("submitit", reason="submitit is not installed")
    try:
        with one_node_slurm(_PACKAGES, cpus=2) as running:
            yield running
    except NoSlurm as reason:
        pytest.skip(f"no Slurm here: {reason}")
