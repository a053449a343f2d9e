"""What tests ask of the page in a browser: scripts in figures, waiting, contrast of colours."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

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
