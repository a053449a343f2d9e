"""The page in a real browser: what answers to mouse, touch and keyboard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .browser import (
    LINE,
    LOOPED,
    MOVE,
    console,
    draw_all,
    in_figure,
    until,
)


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
