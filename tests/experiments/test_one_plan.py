"""`action=plan` of one run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reloop.main import main


def _plan(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main([*words, "action=plan"]) == 0
    return capsys.readouterr().out


@pytest.mark.usefixtures("in_folder")
def test_size_tokens_and_operations(capsys: pytest.CaptureFixture[str]) -> None:
    """Of the iso-depth paper's model of 640 at r = 4 and 1e18 FLOPs: twenty layers deep, of which
    eight have weights of their own, and the injection; no text is read and no folder made."""
    out = _plan(capsys, "task=language", "scale=paper", "recipe=paper", "model=recurrent")
    norms = 640 * (8 * 2 + 3)
    assert f"{8 * 12 * 640**2 + 2 * 640**2 + norms:,} parameters in the backbone" in out
    assert f"{2 * 32000 * 640:,} parameters in embedding and head, of 32,000 tokens" in out
    assert f"{3646 * 128 * 2048:,} tokens" in out
    (flops,) = re.findall(r"(\S+) FLOPs of training", out)
    assert float(flops) == pytest.approx(1e18, rel=0.02)
    assert "NVIDIA H100" in out
    assert not Path("runs").exists()


@pytest.mark.usefixtures("in_folder")
@pytest.mark.parametrize(
    ("model", "backbone"),
    [("FLT", 6 * 12 * 384**2), ("unnormed", 12 * (4 * 768**2 + 3 * 768 * 2048) + 25 * 768)],
)
def test_the_sizes_of_the_papers(
    model: str, backbone: int, capsys: pytest.CaptureFixture[str]
) -> None:
    out = _plan(capsys, "task=language", "scale=paper", "recipe=paper", f"model={model}")
    assert f"{backbone:,} parameters in the backbone" in out


@pytest.mark.usefixtures("in_folder")
def test_a_run_on_pairs(capsys: pytest.CaptureFixture[str]) -> None:
    out = _plan(capsys, "task=linear", "training.steps=100", "training.batch_size=8")
    points = int(re.findall(r"of 8 prompts of (\d+) pairs", out)[0])
    assert f"{100 * 8 * points:,} pairs" in out
    assert "embedding" not in out


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
