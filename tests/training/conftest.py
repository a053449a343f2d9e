"""One other process for all tests that kill a training: it imports torch once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.training.stopping.driven import Driven


@pytest.fixture(scope="session")
def driven() -> Iterator[Driven]:
    """See driven.py."""
    driven = Driven()
    yield driven
    driven.close()
