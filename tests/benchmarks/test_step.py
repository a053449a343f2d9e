"""The step's benchmark measures what it prints, and goes on where a variant fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from looplab.benchmarks import step
from looplab.benchmarks.settings import StepSettings, at_full_size, named_config
from looplab.benchmarks.step import main
from looplab.benchmarks.turns import PARTS, Turns
from looplab.benchmarks.variants import Variant
from tests.benchmarks.checkout import write_checkout
from tests.conftest import HOME

SMALL = ["configs=small", "device=cpu", "pairs=2"]


@pytest.mark.slow
def test_it_measures_every_variant(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkout, path = write_checkout(tmp_path), tmp_path / "new" / "step.json"
    words = [
        *SMALL,
        f"reference={checkout}",
        "precision=fp32",
        "backend=[cpu,eager]",
        f"json={path}",
    ]
    assert main(words) == 0
    names = ["reference eager fp32", "ours cpu fp32", "ours eager fp32"]
    printed = capsys.readouterr().out.splitlines()
    assert [line[: len(name)] for line, name in zip(printed[-3:], names, strict=True)] == names
    report = json.loads(path.read_text(encoding="utf-8"))
    assert report["torch"] == torch.__version__
    assert report["date"]
    assert report["device"]
    assert report["basis"] == "cpu"
    measured = report["settings"]["small"]
    assert (measured["turns"], measured["clocks"]) == (2, None)
    assert measured["flops"] == pytest.approx(3.5e9, rel=0.05)
    assert [row["name"] for row in measured["variants"]] == names
    reference, ours, _ = measured["variants"]
    assert ours["ratios"].keys() == {"reference eager"}
    pairs = [
        theirs / mine
        for theirs, mine in zip(reference["seconds"]["cpu"], ours["seconds"]["cpu"], strict=True)
    ]
    ratio = ours["ratios"]["reference eager"]
    assert min(pairs) <= ratio["low"] <= ratio["middle"] <= ratio["high"] <= max(pairs)
    assert "peak_bytes" not in ours  # what was not measured is not there


@pytest.mark.slow
def test_it_needs_no_matplotlib(tmp_path: Path) -> None:
    """Not every machine with a GPU has it."""
    (tmp_path / "matplotlib.py").write_text("raise ImportError", encoding="utf-8")
    code = "from looplab.benchmarks import kernels, parity"
    for words in (["-c", code], ["-m", "benchmarks.step", *SMALL, "precision=fp32"]):
        done = subprocess.run(
            [sys.executable, *words],
            cwd=HOME,
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
    assert "ours cpu fp32" in done.stdout


@pytest.mark.slow
def test_a_profile_names_the_operations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "step.json"
    assert main([*SMALL, "precision=fp32", "profile=true", f"json={path}"]) == 0
    assert "ours cpu fp32: " in capsys.readouterr().out
    (found,) = json.loads(path.read_text(encoding="utf-8"))["settings"]["small"][
        "profiles"
    ].values()
    calls = {row["name"]: row["calls"] for row in found["rows"]}
    assert calls["aten::baddbmm"] == 6  # attention scores of b loops
    assert found["rates"]["busy_ms"] == pytest.approx(sum(row["ms"] for row in found["rows"]))


def test_on_a_gpu_the_line_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step, "device_name", lambda _: "NVIDIA H200")
    contender: Any = SimpleNamespace(
        variant=Variant("ours", "triton", "bf16", capture=True),
        repeats=1,
        times=[dict.fromkeys(PARTS, 0.001234)],
        facts={"peak_bytes": 2**30},
    )
    turns = Turns(at_full_size(named_config("sparse")), torch.device("cuda"), StepSettings())
    turns.contenders, turns.turns = [contender], 1
    turns.clocks = ["1980 MHz, 2619 MHz, 41, 312.52 W"]
    rows = step.rows_of(turns, "wall")
    head, line, clocks = step.shown(turns, rows).splitlines()
    assert head.split() == ["variant", "wall", "s", "peak", "MiB", "of", "floor", "steps/s"]
    share = f"{rows[0]['floor_s'] / 0.001234:.1%}"
    assert line.split()[4:] == ["0.00123", "1024", share, "810"]
    assert clocks.endswith(": 1980 MHz, 2619 MHz, 41, 312.52 W")
    # GFLOP a step with dense attention and the last y, computed apart.
    assert 1e-9 * step.step_flops(turns.config) == pytest.approx(350 * 81 / 82, rel=0.02)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("pairs=1", "pairs must be"),
        ("configs=sparce", "did you mean 'sparse'?"),
        ("backend=jax", "'jax'"),
        ("precision=tf32", "tf32"),
        ("capture=true", "capture"),
        ("device=cpu:x", "'cpu:x'"),
        ("reference=nowhere", "nowhere holds no scripts"),
        ("--threads 2", "'--threads' is not of the form key=value"),
    ],
)
def test_a_mistake_is_one_line(words: str, named: str, capsys: pytest.CaptureFixture[str]) -> None:
    device = [] if "device" in words else ["device=cpu"]
    assert main([*device, *words.split()]) == 2
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert named in told.err
