"""The command lines of the benchmarks: a mistake is one line and exit code 2."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import NoReturn

from reloop.conf.mistakes import nearest


class Parser(argparse.ArgumentParser):
    """An argument parser that does not print its usage before an error."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def listed(choices: Sequence[str]) -> Callable[[str], list[str]]:
    """Comma-separated names, each one of `choices`."""

    def parse(text: str) -> list[str]:
        names = text.split(",")
        for name in names:
            if name not in choices:
                raise argparse.ArgumentTypeError(f"cannot be {name!r}{nearest(name, choices)}")
        return names

    return parse


def at_least(minimum: int) -> Callable[[str], int]:
    """A whole number of at least `minimum`."""

    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) < minimum:
            raise argparse.ArgumentTypeError(f"must be a whole number >= {minimum}, got {text!r}")
        return int(text)

    return parse


def span(text: str) -> tuple[int, int]:
    """FROM:TO, whole numbers of steps; TO itself is excluded."""
    first, _, end = text.partition(":")
    if not (first.isdecimal() and end.isdecimal() and int(first) < int(end)):
        raise argparse.ArgumentTypeError(f"must be FROM:TO with FROM < TO, got {text!r}")
    return int(first), int(end)
