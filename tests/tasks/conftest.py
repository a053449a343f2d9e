"""Fixtures shared by the tests of the tasks."""

import pytest

from tests.conftest import HOME

FOLDER = HOME / "conf" / "task"
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml"))

# Those that read data, and random tables, whose rows are standardised together.
NO_FUNCTIONS = ("tables", "language", "tables_prior", "tables_prior_regression")


@pytest.fixture(params=[name for name in NAMES if name not in NO_FUNCTIONS])
def name(request: pytest.FixtureRequest) -> str:
    """The name of each function class, one after another."""
    return str(request.param)
