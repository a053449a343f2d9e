"""One measured folder and its page for all tests of this folder, which do not change them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from looplab.experiments.report.page import write_report
from looplab.experiments.settings import ReportSettings

from .measured import make

_BROWSERS = ("chromium", "google-chrome", "chrome")


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


@pytest.fixture(scope="package")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A browser (Debian's chromium and chromium-driver, with selenium) that keeps its console and
    its network requests in logs; skips where one of them is not installed."""
    pytest.importorskip("selenium", reason="selenium is not installed")
    driver_path = shutil.which("chromedriver")
    if driver_path is None:
        pytest.skip("no chromedriver is installed")
    browser_path = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if browser_path is None:
        pytest.skip("no browser is installed")
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    options = ChromeOptions()
    options.binary_location = browser_path
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(word)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    os.environ["SE_OFFLINE"] = "true"  # selenium looks for no driver of its own
    driver = Chrome(options=options, service=Service(driver_path))
    yield driver
    driver.quit()


@pytest.fixture
def opened(browser: Any, index: Path) -> Callable[..., Any]:
    """opened(width, scheme): the page at this width, in light or dark, with all runs open."""

    def open_page(width: int = 1280, scheme: str = "light") -> Any:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        browser.get("about:blank")
        browser.get(index.as_uri())
        assert browser.get_log("browser") == []
        return browser

    return open_page
