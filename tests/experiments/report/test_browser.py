"""The page in a real browser: what it shows, and what answers to mouse, touch and keyboard."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PHONE, DESK = 390, 1280  # widths of the window in pixels
WAIT = 30.0  # seconds, at most, for what the page does


def console(browser: Any) -> list[str]:
    return [entry["message"] for entry in browser.get_log("browser")]


def until(condition: Callable[[], object]) -> object:
    """The value of a condition once it is true."""
    end = time.monotonic() + WAIT
    while not (value := condition()):
        assert time.monotonic() < end, "it never became true"
        time.sleep(0.05)
    return value


def in_figure(browser: Any, title: str, script: str, *values: object) -> Any:
    """The result of a script with the first figure whose title begins so as `figure`."""
    find = (
        "const [title, ...values] = arguments;"
        "const figure = [...document.querySelectorAll('figure')]"
        ".find((f) => f.querySelector('h4').textContent.startsWith(title));"
    )
    return browser.execute_script(find + script, title, *values)


MOVE = (
    "const input = figure.querySelector('input'); input.value = values[0];"
    "input.dispatchEvent(new Event('input', {bubbles: true}));"
    "return figure.querySelector('.slide output').textContent;"
)
SHOWN = (  # the numbers of the curves that are shown
    "return [...new Set([...figure.querySelectorAll('[id*=\"-curve-\"]:not(.off)')]"
    ".map((g) => +g.id.split('-').at(-1)))].sort();"
)
LOOPED = "Errors of"


def rgb(colour: str) -> tuple[float, ...]:
    """The parts of 'rgb(1, 2, 3)', from 0 to 1."""
    return tuple(float(part) / 255 for part in colour.strip("rgba()").split(",")[:3])


def contrast(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    """The contrast ratio of two colours (WCAG 2.2)."""

    def luminance(colour: tuple[float, ...]) -> float:
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
        return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_the_console_is_clean_and_every_figure_has_a_picture(opened: Callable[..., Any]) -> None:
    browser = opened()
    figures = len(browser.find_elements("css selector", "figure.chart"))
    pictures = browser.execute_script(
        "return [...document.querySelectorAll('.plot')].filter((plot) => plot.querySelector("
        "'svg path') && plot.getAttribute('aria-label')).length"
    )
    assert pictures == figures > 12
    assert console(browser) == []


def test_no_request_leaves(opened: Callable[..., Any], index: Path) -> None:
    browser = opened()
    browser.get_log("performance")
    browser.get(index.as_uri())
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


def test_it_prints_with_its_figures(opened: Callable[..., Any]) -> None:
    browser = opened()
    printed = browser.execute_cdp_cmd("Page.printToPDF", {})
    assert len(printed["data"]) > 50_000
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    hidden = (
        "return [...document.querySelectorAll('nav, .copy, .slide')].every((e) => !e.offsetParent)"
    )
    assert browser.execute_script(hidden)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_a_name_that_holds_html_stays_text(opened: Callable[..., Any]) -> None:
    browser = opened()
    legend = in_figure(
        browser, LOOPED, "return figure.querySelectorAll('.legend button')[1].textContent"
    )
    assert legend == 'a<script>alert("x")</script>, $1 & <b>b</b>'
    assert browser.execute_script("return document.querySelectorAll('main b').length") == 0


def test_a_slider_chooses_among_curves(opened: Callable[..., Any]) -> None:
    browser = opened()
    text = "return figure.querySelector('.slide output').textContent"
    assert (in_figure(browser, LOOPED, text), in_figure(browser, LOOPED, SHOWN)) == ("2", [1, 3])
    assert in_figure(browser, LOOPED, MOVE, 2) == "3"
    assert in_figure(browser, LOOPED, SHOWN) == [2, 3]


def test_a_legend_s_name_hides_and_shows_its_curves(opened: Callable[..., Any]) -> None:
    browser = opened()
    click = "figure.querySelectorAll('.legend button')[0].click();"
    for shown, pressed in (([3], "false"), ([1, 3], "true")):
        in_figure(browser, LOOPED, click)
        assert in_figure(browser, LOOPED, SHOWN) == shown
        state = "return figure.querySelector('.legend button').getAttribute('aria-pressed');"
        assert in_figure(browser, LOOPED, state) == pressed
    assert console(browser) == []


def test_the_mouse_and_the_arrow_keys_read_values(opened: Callable[..., Any]) -> None:
    from selenium.webdriver import ActionChains, Keys

    browser = opened()
    plot = in_figure(
        browser, LOOPED,
        "figure.scrollIntoView({block: 'center'}); return figure.querySelector('.plot');",
    )  # fmt: skip
    tip = "return figure.querySelector('.tip').textContent;"
    ActionChains(browser).move_to_element_with_offset(plot, 5, 0).perform()
    said = str(until(lambda: in_figure(browser, LOOPED, tip)))
    assert said.startswith("k 1\n")
    assert "looped_2: 0.5 (0.45 to 0.55)" in said
    plot.send_keys(Keys.END)
    assert in_figure(browser, LOOPED, tip).startswith("k 2\n")
    plot.send_keys(Keys.ARROW_LEFT)
    assert in_figure(browser, LOOPED, tip).startswith("k 1\n")
    plot.send_keys(Keys.ESCAPE)
    assert in_figure(browser, LOOPED, tip) == ""


def test_the_keyboard_reaches_the_content_and_every_control(opened: Callable[..., Any]) -> None:
    from selenium.webdriver import ActionChains, Keys

    browser = opened()

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
    assert {"csv", "scroll", "copy", "plot"} <= kinds
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
