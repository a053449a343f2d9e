"""The page in a real browser (Debian's chromium and chromium-driver, with selenium): skipped where
one of them is not installed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .browser import LINE, LOOPED, MOVE, console, contrast, draw_all, in_figure, rgb, until

selenium = pytest.importorskip("selenium", reason="selenium is not installed")
DRIVER = shutil.which("chromedriver")
if DRIVER is None:
    pytest.skip("no chromedriver is installed", allow_module_level=True)
BROWSER = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")
if BROWSER is None:
    pytest.skip("no browser is installed", allow_module_level=True)

PHONE, DESK = 390, 1280


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A browser that keeps its console and its network requests in logs."""
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    options = ChromeOptions()
    options.binary_location = BROWSER
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(word)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    os.environ["SE_OFFLINE"] = "true"  # selenium looks for no driver of its own
    driver = Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def opened(browser: Any, index: Path) -> Callable[..., Any]:
    """opened(width, scheme): the page at this width, in light or dark, with all runs open."""

    def open_page(width: int = DESK, scheme: str = "light") -> Any:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        browser.get("about:blank")
        browser.get(index.as_uri())
        assert console(browser) == []
        return browser

    return open_page


def test_the_console_is_clean_and_every_figure_is_drawn(opened: Callable[..., Any]) -> None:
    browser = opened()
    figures = len(browser.find_elements("css selector", "figure.chart"))
    assert draw_all(browser) == figures > 12
    missing = browser.execute_script(
        "return [...document.querySelectorAll('.canvas svg')].filter((svg) =>"
        " !svg.querySelector('polyline, circle, path') || !svg.getAttribute('aria-label')).length"
    )
    assert missing == 0
    ticks = browser.execute_script(
        "return [...document.querySelectorAll('.canvas svg')].map((svg) =>"
        " [svg.querySelectorAll('.xtick').length, svg.querySelectorAll('.ytick').length])"
    )
    assert min(min(pair) for pair in ticks) >= 2
    assert console(browser) == []


def test_no_request_leaves(opened: Callable[..., Any], index: Path) -> None:
    browser = opened()
    browser.get_log("performance")
    browser.get(index.as_uri())
    draw_all(browser)
    urls = [
        message["params"]["request"]["url"]
        for entry in browser.get_log("performance")
        if (message := json.loads(entry["message"])["message"])["method"]
        == "Network.requestWillBeSent"
    ]
    urls = [url for url in urls if not url.startswith(("chrome://", "data:"))]
    assert urls == [index.as_uri()]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, DESK])
def test_nothing_is_wider_than_the_screen(
    opened: Callable[..., Any], width: int, scheme: str
) -> None:
    browser = opened(width, scheme)
    draw_all(browser)
    for each in browser.find_elements("css selector", "details"):
        browser.execute_script("arguments[0].open = true", each)
    wide = browser.execute_script(
        "const limit = document.documentElement.clientWidth + 1;"
        "return [...document.querySelectorAll('main *')]"
        ".filter((e) => !e.closest('.scroll, svg, .tip'))"
        ".filter((e) => e.getBoundingClientRect().right > limit)"
        ".map((e) => e.outerHTML.slice(0, 80))"
    )
    assert wide == []
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.execute_script("return innerWidth") == width


def test_dark_and_light_have_readable_contrast(opened: Callable[..., Any]) -> None:
    seen = {}
    for scheme in ("light", "dark"):
        browser = opened(DESK, scheme)
        draw_all(browser)
        places = {
            "ink": "body", "soft": ".about", "link": "nav a",
            "good": ".holds", "bad": ".fails", "open": ".not-settled",
        }  # fmt: skip
        style = "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"
        colours = {
            name: browser.execute_script(style, place, "color") for name, place in places.items()
        }
        page = browser.execute_script(style, "body", "backgroundColor")
        for name, colour in colours.items():
            assert contrast(rgb(colour), rgb(page)) >= 4.5, (scheme, name)
        seen[scheme] = rgb(page)
    assert max(seen["dark"]) < 0.2
    assert min(seen["light"]) > 0.9


def test_a_slider_moves_its_curve_and_not_the_others(opened: Callable[..., Any]) -> None:
    browser = opened()
    solver = "return figure.querySelectorAll('polyline')[1].getAttribute('points');"
    before, other = in_figure(browser, LOOPED, LINE), in_figure(browser, LOOPED, solver)
    assert (
        in_figure(browser, LOOPED, "return figure.querySelector('.slide output').textContent")
        == "2"
    )
    assert in_figure(browser, LOOPED, MOVE, ".at", 2) == "3"
    after = in_figure(browser, LOOPED, LINE)
    assert in_figure(browser, LOOPED, solver) == other
    first, last = ([point.split(",") for point in line.split()] for line in (before, after))
    assert first[:2] == last[:2]
    assert float(last[2][1]) < float(first[2][1])  # 0.3 is drawn above 0.2


def test_the_slider_over_phi_moves_the_models_along(opened: Callable[..., Any]) -> None:
    browser = opened()
    points = "return [...figure.querySelectorAll('.canvas path.open')].map((p) => p.getBBox().x);"
    text = "return figure.querySelector('.values').textContent;"
    fitted, said = in_figure(browser, "The law", points), in_figure(browser, "The law", text)
    assert in_figure(browser, "The law", MOVE, ".at", 0) == "-0.2"
    moved = in_figure(browser, "The law", points)
    assert len(moved) == len(fitted) == 27
    assert moved[:9] != moved[9:18]
    assert sum(a < b - 1 for a, b in zip(moved, fitted, strict=True)) >= 18  # all of r > 1
    assert in_figure(browser, "The law", text).startswith("φ -0.2: R²")
    assert said.startswith("φ 0.4")


def test_a_reader_chooses_the_loop_at_which_errors_are_read(opened: Callable[..., Any]) -> None:
    browser = opened()
    title = "The last query's error by loop: within"
    text = "return figure.querySelector('.values').textContent;"
    assert in_figure(browser, title, text).startswith("loop 4: looped: ")
    in_figure(browser, title, MOVE, ".read", 0)
    assert in_figure(browser, title, text).startswith("loop 1: looped: ")


def test_an_axis_of_names_shows_them_below_single_points(opened: Callable[..., Any]) -> None:
    browser = opened()
    ticks = "return [...figure.querySelectorAll('.xtick')].map((t) => t.textContent);"
    assert in_figure(browser, "Accuracy", ticks) == ["wind, 1", "<i>credit</i>"]
    assert in_figure(browser, "Accuracy", "return figure.querySelectorAll('polyline').length") == 0
    places = "return [...figure.querySelectorAll('.canvas path.open')].map((p) => p.getBBox().y);"
    first, second = in_figure(browser, "Accuracy", places)
    assert first < second  # 0.8 above 0.7


def test_a_legend_s_name_hides_its_curve_and_log_axes_switch(opened: Callable[..., Any]) -> None:
    browser = opened()
    count = "return figure.querySelectorAll('polyline').length;"
    click = "figure.querySelectorAll(values[0])[values[1]].click();"
    assert in_figure(browser, LOOPED, count) == 2
    in_figure(browser, LOOPED, click, ".legend button", 0)
    assert in_figure(browser, LOOPED, count) == 1
    assert in_figure(browser, LOOPED, LINE) is None
    pressed = "return figure.querySelector('.legend button').getAttribute('aria-pressed');"
    assert in_figure(browser, LOOPED, pressed) == "false"
    in_figure(browser, LOOPED, click, ".legend button", 1)
    assert "no curve is shown" in in_figure(browser, LOOPED, "return figure.textContent")
    in_figure(browser, LOOPED, click, ".legend button", 0)
    in_figure(browser, LOOPED, click, ".legend button", 1)
    ticks = "return [...figure.querySelectorAll('.ytick')].map((t) => t.textContent);"
    assert "0.1" in in_figure(browser, LOOPED, ticks)
    in_figure(browser, LOOPED, click, ".axes button", 0)
    assert in_figure(browser, LOOPED, ticks)[0] == "0"
    assert console(browser) == []


def test_the_mouse_and_the_arrow_keys_read_values(opened: Callable[..., Any]) -> None:
    from selenium.webdriver import ActionChains, Keys

    browser = opened()
    canvas = in_figure(
        browser,
        LOOPED,
        "figure.scrollIntoView({block: 'center'}); return figure.querySelector('.canvas');",
    )
    ActionChains(browser).move_to_element_with_offset(canvas, 5, 0).perform()
    tip = until(
        lambda: in_figure(
            browser,
            LOOPED,
            "const t = figure.querySelector('.tip'); return t.hidden ? '' : t.textContent;",
        )
    )
    assert "looped: 0.5 (0.45 to 0.55)" in str(tip)
    canvas.send_keys(Keys.END)
    values = in_figure(browser, LOOPED, "return figure.querySelector('.values').textContent;")
    assert values.startswith("k 2: looped: 0.2 (0.18 to 0.22); ")
    canvas.send_keys(Keys.ARROW_LEFT)
    values = in_figure(browser, LOOPED, "return figure.querySelector('.values').textContent;")
    assert values.startswith("k 1: looped: 0.5")


def test_the_keyboard_reaches_the_content_and_every_control(opened: Callable[..., Any]) -> None:
    from selenium.webdriver import ActionChains, Keys

    browser = opened()
    draw_all(browser)

    def tab() -> Any:
        ActionChains(browser).send_keys(Keys.TAB).perform()
        return browser.switch_to.active_element

    first = tab()
    assert first.text == "Skip to the results"
    assert first.rect["x"] >= 0
    ActionChains(browser).send_keys(Keys.ENTER).perform()
    assert browser.switch_to.active_element.get_attribute("id") == "main"
    kinds = set()
    for _ in range(40):
        element = tab()
        kinds.add(element.get_attribute("class") or element.tag_name)
    assert {"csv", "scroll", "copy", "canvas", "at"} <= kinds
    unnamed = browser.execute_script(
        "return [...document.querySelectorAll('button, a[href], input, [tabindex=\"0\"]')]"
        ".filter((e) => !e.textContent.trim() && !e.getAttribute('aria-label'))"
        ".filter((e) => !e.getAttribute('aria-labelledby') && !e.labels?.length).length"
    )
    assert unnamed == 0


def test_a_command_is_copied_with_one_click(opened: Callable[..., Any]) -> None:
    browser = opened()
    browser.execute_script(
        "navigator.clipboard.writeText = async (text) => { window.copied = text; }"
    )
    browser.find_element("css selector", ".claims .copy").click()
    until(lambda: browser.find_element("css selector", ".said").text == "copied")
    assert browser.execute_script("return copied") == "python run.py experiment=fig02 'x=[holds]'"


def test_a_link_opens_the_run_that_it_leads_to(opened: Callable[..., Any]) -> None:
    browser = opened()
    browser.execute_script(
        "for (const d of document.querySelectorAll('details.run')) d.open = false"
    )
    link = browser.find_element("css selector", ".runs tbody a")
    browser.execute_script("arguments[0].click()", link)
    target = link.get_attribute("href").partition("#")[2]
    until(
        lambda: browser.execute_script(
            "return document.getElementById(arguments[0]).querySelector('details').open", target
        )
    )


def test_it_prints_with_its_figures(opened: Callable[..., Any]) -> None:
    browser = opened()
    printed = browser.execute_cdp_cmd("Page.printToPDF", {})
    assert len(printed["data"]) > 50_000
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    hidden = (
        "return [...document.querySelectorAll('nav, .copy, .slide')].every((e) => !e.offsetParent)"
    )
    assert browser.execute_script(hidden)
    assert draw_all(browser) > 12
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_a_name_that_holds_html_stays_text(opened: Callable[..., Any]) -> None:
    browser = opened()
    draw_all(browser)
    legend = in_figure(
        browser, LOOPED, "return figure.querySelectorAll('.legend button')[1].textContent"
    )
    assert legend == 'a<script>alert("x")</script>, $1 & <b>b</b>'
    assert browser.execute_script("return document.querySelectorAll('main b').length") == 0
