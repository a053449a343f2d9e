"""One measured folder and its page for all tests of this folder, which do not change them."""

from __future__ import annotations

from pathlib import Path

import pytest

from reloop.experiments.report.settings import ReportSettings
from reloop.experiments.report.write import write_report

from .measured import make


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one of everything."""
    return make(tmp_path_factory.mktemp("measured") / "runs")


@pytest.fixture(scope="session")
def index(measured: Path) -> Path:
    """The path of its page."""
    output = measured.parent / "report"
    write_report(ReportSettings(folder=str(measured), output=str(output)))
    return output / "index.html"
