"""A name for plain values, by which a file that was altered is recognised."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def checksum_of(content: Any) -> str:
    """The sha256 of plain values as JSON, whatever the order of keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
