"""Commands that have moved: the old one prints the new one."""

from __future__ import annotations

import sys


def moved(old: str, new: str) -> None:
    """End the process: `python -m old` is `python -m new` since version 0.2."""
    print(f"{old}: has moved; type python -m {new}", file=sys.stderr)
    sys.exit(2)
