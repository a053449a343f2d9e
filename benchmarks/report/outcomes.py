"""The outcomes of tests in the log of `pytest -v`, also of one that was cut off."""

from __future__ import annotations

import re

_LINE = re.compile(r"^(tests/\S+::.*?)(?: (PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\b.*)?$", re.M)
_HEADS = {"PASSED": "passed", "XPASS": "passed", "SKIPPED": "skipped", "XFAIL": "skipped"}


def outcomes(log: str) -> dict[str, list[str]]:
    """The names of the tests that passed, failed, were skipped, or began and did not finish. One
    that passed and whose clearing up failed has failed."""
    words: dict[str, str] = {}
    for name, word in _LINE.findall(log):
        words[name if word else name.split(" ")[0]] = word
    found: dict[str, list[str]] = {"passed": [], "failed": [], "unfinished": [], "skipped": []}
    for name, word in words.items():
        found[_HEADS.get(word, "failed") if word else "unfinished"].append(name)
    return found
