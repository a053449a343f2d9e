"""The profile names what a step spends its time on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reloop.benchmarks.profile_step import main

WORDS = ["config=small", "device=cpu", "steps=1", "warmup=1"]


def test_it_names_the_operations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "profile.json"
    assert main([*WORDS, "top=3", f"json={path}"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("small, ours cpu fp32: ")
    assert len(printed) == 3 + 3
    report = json.loads(path.read_text(encoding="utf-8"))
    calls = {row["name"]: row["calls"] for row in report["rows"]}
    assert calls["aten::baddbmm"] == 6  # attention scores of b loops
    assert report["rates"]["busy_ms"] == pytest.approx(sum(row["ms"] for row in report["rows"]))


def test_two_variants_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, "variant=eager:fp32,eager:bf16"]) == 2
    assert "got 'eager:fp32,eager:bf16'" in capsys.readouterr().err
