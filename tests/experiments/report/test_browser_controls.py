"""The page in a real browser: what answers to mouse, touch and keyboard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .browser import (
    LOOPED,
    MOVE,
    SHOWN,
    console,
    in_figure,
    until,
)


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
