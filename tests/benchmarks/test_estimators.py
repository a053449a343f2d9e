"""The estimators' benchmark prints what it says, and answers are those of queries one by one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reloop.benchmarks.estimators import main

SMALL = ["context=6", "dims=3", "loops=3", "repeats=2"]


def test_it_times_queries_together_and_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "measured.json"
    assert main([*SMALL, "width=16", "queries=30", f"json={path}"]) == 0
    lines = capsys.readouterr().out.splitlines()[-4:]
    assert lines[0].startswith("30 queries, 6 rows of context, width 16, 3 loops")
    measured = json.loads(path.read_text())
    assert len(measured["together_s"]) == 2
    assert measured["difference"] < 1e-12
    alone = float(lines[2].split()[1])
    assert alone == pytest.approx(30 * measured["alone_s_each"], abs=1e-3)
    assert alone > min(measured["together_s"])


def test_a_width_of_no_whole_heads_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SMALL, "width=20"]) == 2
    assert "width must be a multiple of 8, got 20" in capsys.readouterr().err
