"""Table 2 of arXiv 2311.12424, as printed in its notebook.

printed(720)["looped"].mean        # 0.6622
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

_PATH = Path(__file__).with_suffix(".json")


class Printed(NamedTuple):
    """An accuracy, and its population standard deviation over five draws of contexts."""

    mean: float
    std: float


def printed(openml_id: int | None) -> dict[str, Printed]:
    """The numbers of a held-out table by model family; empty for a table outside the ten."""
    entry = _content()["tables"].get(str(openml_id), {})
    return {family: Printed(*values) for family, values in entry.items()}


def source() -> str:
    """The source of these numbers."""
    text: str = _content()["source"]
    return text


@cache
def _content() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(_PATH.read_text(encoding="utf-8"))
    return content
