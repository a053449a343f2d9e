"""One measured folder for all tests of this folder, which do not change it."""

from pathlib import Path

import pytest

from .measured import make


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one of everything."""
    return make(tmp_path_factory.mktemp("measured") / "runs")
