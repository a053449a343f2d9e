"""Table 2 of arXiv 2311.12424, as printed in its notebook.

printed(720)["looped"]["mean"]        # 0.6622
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from .results import Accuracy

_PATH = Path(__file__).with_suffix(".json")


def printed(openml_id: int | None) -> dict[str, Accuracy]:
    """The accuracies on a held-out table, by model family; empty for a table outside the ten."""
    entry = _content()["tables"].get(str(openml_id), {})
    return {family: {"mean": mean, "std": std} for family, (mean, std) in entry.items()}


def source() -> str:
    """The source of these numbers."""
    text: str = _content()["source"]
    return text


@cache
def _content() -> Any:
    return json.loads(_PATH.read_text(encoding="utf-8"))
