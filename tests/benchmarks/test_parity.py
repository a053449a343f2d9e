"""Loss curves of variants are compared seed by seed."""

import json
from pathlib import Path

import pytest

from looplab.benchmarks.parity import compare, main
from looplab.benchmarks.settings import ParitySettings

SMALL = ["config=small", "device=cpu", "steps=6", "early=[0,3]", "late=[3,6]"]


def test_variants_see_the_same_batches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "parity.json"
    words = ["variants=[eager:fp32,eager:bf16]", "seeds=2", f"json={path}"]
    assert main([*SMALL, *words]) == 0
    report = json.loads(path.read_text(encoding="utf-8"))
    exact, rounded = (report["losses"][f"ours eager {name}"] for name in ("fp32", "bf16"))
    assert exact.keys() == rounded.keys() == {"0", "1"}
    assert [len(losses) for losses in (*exact.values(), *rounded.values())] == 4 * [6]
    assert exact["0"] != exact["1"]
    assert exact["0"] != rounded["0"]
    assert exact["0"] == pytest.approx(rounded["0"], rel=0.02)
    facts = report["summary"]["ours eager bf16"]
    assert all(0 < value < 0.02 for value in facts["early_median_relative_difference"].values())
    assert report["config"] == "small"
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("ours eager bf16: median relative difference over steps 0-3")


def test_the_summary_is_by_seed() -> None:
    settings = ParitySettings(early=(0, 3), late=(3, 5))
    base = {0: [1.0, 2.0, 4.0, 1.0, 3.0], 1: [1.0, 1.0, 1.0, 1.0, 1.0]}
    other = {0: [1.1, 2.0, 3.0, 1.0, 2.0]}  # seed 1 failed
    found = compare(base, other, settings)
    assert found["early_median_relative_difference"] == {0: pytest.approx(0.1)}
    assert found["late_mean_loss_ratio"] == {0: pytest.approx(0.75)}
