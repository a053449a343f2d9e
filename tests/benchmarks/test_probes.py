"""The probes' benchmark: every way of the loop makes our step, and it says what it saw."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

from reloop.benchmarks import probes as benchmark
from reloop.benchmarks.probes import WAYS, Loop, main
from reloop.probing.probes import Probes, ProbeTrainer

SMALL = ["layers=2", "points=3", "prompts=9", "width=5", "outputs=4"]


def start() -> tuple[Probes, list[Tensor], Tensor]:
    draws = torch.Generator().manual_seed(0)
    seen = torch.arange(6) < 2 * torch.arange(1, 4)[:, None]
    probes = Probes(2, 1, seen, 5, 4, 7, generator=draws)
    states = [torch.randn(9, 6, 5, generator=draws) for _ in range(2)]
    return probes, states, torch.randn(9, 3, 4, generator=draws)


@pytest.mark.parametrize("way", WAYS)
def test_every_way_makes_our_step(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "_PART", 4)
    how = (*WAYS[way][:2], 4 if WAYS[way][2] else None)
    probes, states, targets = start()
    loop, trainer = Loop(probes, how), ProbeTrainer(probes)
    assert loop.prediction_difference(probes, states) < 1e-6
    for _ in range(3):
        loop.accumulate(states, targets)
        for layer, of_layer in enumerate(states):
            probes.accumulate(layer, of_layer, targets)
        assert loop.gradient_difference(probes) < 1e-7
        loop.update()
        assert loop.prediction_difference(probes, states) > 1e-4
        trainer.update()
        assert loop.prediction_difference(probes, states) < 1e-5


def test_it_measures_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "probes.json"
    assert main([*SMALL, "pairs=2", "full_pairs=2", f"json={path}"]) == 0
    report = json.loads(path.read_text(encoding="utf-8"))
    assert report["size"]["layers"] == 2
    assert set(report["tokens"]) == {"all", "own pairs"}
    for found in report["tokens"].values():
        assert set(found["one_layer"]) == set(WAYS)
        seconds = {way: min(sides["loop"]["cpu_s"]) for way, sides in found["one_layer"].items()}
        assert found["fastest"] == min(seconds, key=lambda way: seconds[way])
        for sides in (*found["one_layer"].values(), found["all_layers"]):
            ratios = [
                theirs / ours
                for theirs, ours in zip(sides["loop"]["cpu_s"], sides["ours"]["cpu_s"], strict=True)
            ]
            assert sides["ratio_cpu"]["middle"] == pytest.approx(sum(ratios) / 2)
            assert 0 <= sides["apart"]["gradients"] < 1e-7
            assert 0 <= sides["apart"]["predictions"] < 1e-4
        assert max(found["float64_apart"].values()) < 1e-13
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 1 + 2 * (1 + len(WAYS) + 1)


def test_a_mistake_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pairs=1"]) == 2
    assert "pairs must be at least 2" in capsys.readouterr().err
