"""Each test works in a folder of its own with a text of ten documents."""

from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.figure import Figure


@pytest.fixture(autouse=True)
def in_a_folder_with_a_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undrawn: dict[str, Figure]
) -> None:
    monkeypatch.chdir(tmp_path)
    documents = [f"the {name} sat on the mat and saw the {name}.\n" * 8 for name in "abcdefghij"]
    (tmp_path / "text.txt").write_text("<|endoftext|>\n".join(documents))
