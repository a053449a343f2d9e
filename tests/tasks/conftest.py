"""Fixtures shared by the tests of the tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "conf" / "task"


@pytest.fixture(params=sorted(path.stem for path in FOLDER.glob("*.yaml")))
def name(request: pytest.FixtureRequest) -> str:
    """The name of each task that can be configured, one after another."""
    return str(request.param)
