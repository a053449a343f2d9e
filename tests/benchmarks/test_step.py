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

from looplab.benchmarks import step, timing
from looplab.benchmarks.settings import StepSettings, at_full_size, named_config
from looplab.benchmarks.step import main
from looplab.benchmarks.turns import Turns
from looplab.benchmarks.variants import Variant
from tests.benchmarks.checkout import write_checkout
from tests.conftest import HOME

SMALL = ["configs=small", "device=cpu", "pairs=2", "least=0.05"]


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
    assert [line[:32].strip() for line in printed[-3:]] == names
    report = json.loads(path.read_text(encoding="utf-8"))
    assert report["torch"] == torch.__version__
    assert report["date"]
    assert report["device"]
    assert report["basis"] == "cpu"
    measured = report["settings"]["small"]
    assert (measured["turns"], measured["clocks"]) == (2, None)
    assert measured["work"]["flops"] == pytest.approx(3.4919e9, rel=1e-3)
    assert [row["name"] for row in measured["variants"]] == names
    reference, ours, _ = measured["variants"]
    assert ours["ratios"].keys() == {"reference eager"}
    pairs = [
        theirs / mine
        for theirs, mine in zip(cpu(reference["seconds"]), cpu(ours["seconds"]), strict=True)
    ]
    ratio = ours["ratios"]["reference eager"]
    assert min(pairs) <= ratio["low"] <= ratio["middle"] <= ratio["high"] <= max(pairs)
    assert "kernels" not in ours  # what was not measured is not there


@pytest.mark.slow
def test_it_needs_no_hydra(tmp_path: Path) -> None:
    """Machines that lend a GPU do not have it."""
    for name in ("hydra", "omegaconf"):
        (tmp_path / f"{name}.py").write_text("raise ImportError", encoding="utf-8")
    code = "from looplab.benchmarks import kernels, parity, timing"
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


def cpu(seconds: dict[str, list[float]]) -> list[float]:
    return [user + system for user, system in zip(seconds["user"], seconds["system"], strict=True)]


@pytest.mark.slow
def test_seconds_of_runs_together_are_of_one(tmp_path: Path) -> None:
    path = tmp_path / "step.json"
    assert main([*SMALL, "precision=fp32", "runs=[1,2]", f"json={path}"]) == 0
    ours = json.loads(path.read_text(encoding="utf-8"))["settings"]["small"]["variants"]
    assert [row["name"] for row in ours] == ["ours cpu fp32", "ours cpu fp32, 2 runs"]
    one, two = (row["median_s"]["cpu"] for row in ours)
    assert two < 1.5 * one


def test_launches_are_counted_without_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {"gemm": (40, 1.0), "Memcpy HtoD": (2, 1.0), "Memset": (1, 1.0), "gelu": (3, 1.0)}
    monkeypatch.setattr(timing, "operations", lambda *_: seen)
    cuda = torch.device("cuda")
    assert timing.launches(lambda: None, cuda) == {"kernels": 43, "copies_and_fills": 3}
    monkeypatch.setattr(timing, "operations", lambda *_: {})
    assert timing.launches(lambda: None, cuda) == {}  # not 0: nothing was seen


def test_on_a_gpu_the_line_is_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(step, "device_name", lambda _: "NVIDIA H200")
    contender: Any = SimpleNamespace(
        variant=Variant("ours", "triton", "bf16", capture=True),
        repeats=1,
        seconds=lambda basis: [0.001234],
        facts={"peak_bytes": 2**30, "kernels": 43},
    )
    turns = Turns(at_full_size(named_config("sparse")), torch.device("cuda"), StepSettings())
    monkeypatch.setattr(turns, "whole", lambda: [contender])
    turns.clocks = ["1980 MHz, 2619 MHz, 41, 312.52 W"]
    rows = step.rows_of(turns, "wall")
    step.show(turns, rows)
    head, line, clocks = capsys.readouterr().out.splitlines()
    assert head.split() == [
        "wall",
        "ms",
        "kernels",
        "peak",
        "MiB",
        "of",
        "floor",
        "500k,",
        "h",
        "steps/s",
    ]
    share = f"{rows[0]['floor_s'] / 0.001234:.1%}"
    assert line.split()[4:] == ["1.23", "43", "1024", share, "0.17", "810"]
    assert clocks.endswith(": 1980 MHz, 2619 MHz, 41, 312.52 W")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("runs=0", "runs must be"),
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


def test_a_short_step_is_made_many_times() -> None:
    made = []
    cpu = torch.device("cpu")
    repeats = timing.warm_up(lambda: made.append(1), 3, cpu, least=0.05)
    assert repeats > 100
    made.clear()
    times = timing.measure(lambda: made.append(1), repeats, cpu)
    assert len(made) == repeats
    assert times.wall > 0
    assert timing.warm_up(lambda: None, 1, cpu, least=1e-12) == 1
