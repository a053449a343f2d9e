"""A torch.cuda of its own for tests without a GPU, and one other process for all tests that kill a
training: it imports torch once."""

from collections.abc import Callable, Iterator

import pytest
import torch

from tests.training.stopping.killed import Driven


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """cuda(is_available=lambda: True): what torch.cuda has in place of its own."""

    def cuda(**replaced: object) -> None:
        for name, value in replaced.items():
            monkeypatch.setattr(torch.cuda, name, value)

    return cuda


@pytest.fixture(scope="session")
def driven() -> Iterator[Driven]:
    """See killed.py."""
    driven = Driven()
    yield driven
    driven.close()
