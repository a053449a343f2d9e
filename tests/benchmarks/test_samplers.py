"""The samplers' benchmark prints what it says, with and without a checkout to compare with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from looplab.benchmarks.samplers import main

FEW = ["pairs=3"]
# As much of the reference's interface as is used, written for this test.
CHECKOUT = """
import time

def get_task_sampler(name, batch, points, dims, visible, device, sparsity=None):
    return lambda: time.sleep(0.05)
"""


def test_it_times_every_task(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(FEW) == 0
    rows = capsys.readouterr().out.splitlines()[2:]
    assert [row.split()[0] for row in rows] == [
        *("linear", "sparse_linear", "decision_tree", "relu_network")
    ]
    assert all(float(row.split()[1]) > 0 for row in rows)


def test_the_ratio_is_theirs_over_ours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "tasks.py").write_text(CHECKOUT, encoding="utf-8")
    assert main([*FEW, f"reference={tmp_path}"]) == 0
    for row in capsys.readouterr().out.splitlines()[2:]:
        ours, theirs, ratio = (float(cell) for cell in row.split()[1:4])
        assert theirs >= 50  # milliseconds
        assert ratio > 1
        assert ours < theirs


@pytest.mark.parametrize(
    ("word", "named"),
    [("reference=nowhere", "nowhere holds no scripts"), ("pairs=1", "pairs must be at least 2")],
)
def test_a_mistake_is_told(word: str, named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word]) == 2
    assert named in capsys.readouterr().err


def test_what_was_measured_is_written(tmp_path: Path) -> None:
    path = tmp_path / "samplers.json"
    assert main([*FEW, f"json={path}"]) == 0
    report = json.loads(path.read_text(encoding="utf-8"))
    assert report["threads"] >= 1
    assert len(report["seconds"]["linear"]["ours"]) == 3
    assert "reference" not in report["seconds"]["linear"]
