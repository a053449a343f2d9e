"""The benchmark of locks measures where it is told, and leaves nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reloop.benchmarks.locks import main


def test_each_operation_is_timed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, file = tmp_path / "shared", tmp_path / "locks.json"
    assert main([f"folder={folder}", "times=3", f"json={file}"]) == 0
    assert [line.split("  ")[0] for line in capsys.readouterr().out.splitlines()] == [
        "take and release", "heartbeat", "look at a held run"
    ]  # fmt: skip
    times = json.loads(file.read_text())["milliseconds"]
    assert all(0 < value < 1000 for value in times.values())
    assert not list(folder.iterdir())
