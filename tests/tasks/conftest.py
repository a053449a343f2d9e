"""Fixtures shared by the tests of the tasks."""

import pytest

from tests.conftest import HOME

FOLDER = HOME / "conf" / "task"
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml"))


@pytest.fixture(params=[name for name in NAMES if name not in ("tables", "language")])
def name(request: pytest.FixtureRequest) -> str:
    """The name of each function class, one after another: all tasks that read no data."""
    return str(request.param)
