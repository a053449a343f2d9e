"""The step's benchmark measures what it prints, of settings that the command line composes too."""

from __future__ import annotations

import json
from dataclasses import astuple
from pathlib import Path

import pytest
import torch

from looplab.benchmarks.settings import NAMES, Name, at_full_size, named_config
from looplab.benchmarks.step import main
from looplab.conf.compose import commands
from looplab.training.assemble import build_curriculum, build_task
from tests.benchmarks.checkout import write_checkout

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


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("configs=sparce", "did you mean 'sparse'?"),
        ("reference=nowhere", "nowhere holds no scripts"),
    ],
)
def test_a_mistake_is_one_line(words: str, named: str, capsys: pytest.CaptureFixture[str]) -> None:
    device = [] if "device" in words else ["device=cpu"]
    assert main([*device, *words.split()]) == 2
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert named in told.err


WORDS = {
    "linear": ["scale=paper", "task=linear"],
    "sparse": ["scale=paper", "task=sparse_linear"],
    "tree": ["scale=paper", "task=decision_tree"],
    "relu": ["scale=paper", "task=relu_network"],
    "standard": ["scale=paper", "task=linear", "model=standard"],
    "small": ["scale=small", "task=sparse_linear"],
}


@pytest.mark.parametrize("name", NAMES)
def test_a_setting_is_what_the_command_line_composes(name: Name) -> None:
    assert named_config(name) == commands([*WORDS[name], "recipe=paper"])[0].config


@pytest.mark.parametrize(
    ("name", "stage"),
    [
        ("sparse", (20, 41, 20, 10, 10, 20)),
        ("tree", (20, 101, 70, 15, 15, 70)),
        ("small", (8, 17, 6, 5, 5, 6)),
    ],
)
def test_full_size_is_the_curriculums_end(name: Name, stage: tuple[int, ...]) -> None:
    config = at_full_size(named_config(name))
    assert astuple(build_curriculum(config, build_task(config))(0)) == stage
