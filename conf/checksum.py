"""A checksum of plain values, to recognise an altered file, and keys made from it."""

import hashlib
import json
from typing import Any


def checksum_of(content: Any) -> str:
    """The sha256 of plain values as JSON, whatever the order of keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def key_of(content: Any, digits: int = 12) -> str:
    """The first digits of the checksum: the name of the file or folder with the results of these
    values."""
    return checksum_of(content)[:digits]
