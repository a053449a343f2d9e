"""The page in a real browser: what it shows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .browser import (
    DESK,
    LOOPED,
    PHONE,
    console,
    contrast,
    in_figure,
    rgb,
)


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
