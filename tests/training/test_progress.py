"""A bar in a notebook, which nbconvert keeps: one output, replaced."""

import io
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from looplab.training.progress import Progress


def test_a_notebooks_bar_is_one_output_and_leaves_nothing_on_stderr(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = list[str]()
    begun = list[str]()

    def display(content: dict[str, str], **how: Any) -> SimpleNamespace:
        assert how == {"raw": True, "display_id": True}
        begun.append(content["text/plain"])
        return SimpleNamespace(update=lambda new, raw: shown.append(new["text/plain"]))

    stderr = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})()
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    with Progress(total=3, what="probes", unit="step") as progress:
        progress.delay = 0
        for _ in range(3):
            progress.mininterval = 0
            progress.update()
    assert len(begun) == 1
    assert "3/3" in shown[-2]
    assert shown[-1] == ""  # it is not left
    assert stderr.getvalue() == ""
