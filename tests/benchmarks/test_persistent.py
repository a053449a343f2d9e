"""The model of the persistent loop: docs/gpu.md shows what it prints, and its sums are right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reloop.benchmarks.persistent import DIVISIONS, floor, main, parts_of
from reloop.benchmarks.settings import PersistentSettings
from tests.conftest import HOME


@pytest.mark.parametrize("points", [41, 101])
def test_the_documentation_shows_these_tables(
    points: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([f"points={points}"]) == 0
    text = (HOME / "docs" / "gpu.md").read_text(encoding="utf-8")
    assert f"```\n{capsys.readouterr().out}```\n" in text


@pytest.mark.parametrize("points", [41, 101])
def test_nothing_takes_less_than_its_arithmetic(points: int) -> None:
    """24 D² a column and 800 TFLOP/s of 132 multiprocessors; in all, a card's work at best."""
    settings = PersistentSettings(points=points)
    for division in DIVISIONS:
        plan, parts = division.plan(settings), parts_of(division, settings)
        padded = 1e6 * 24 * 256**2 * plan.columns / plan.features / (800e12 / 132)
        assert parts.products >= padded * (1 - 1e-9)
        assert parts.total > floor(settings)


def test_twice_the_prompts_take_twice_the_rounds() -> None:
    once, twice = (parts_of(DIVISIONS[0], PersistentSettings(prompts=n)).total for n in (66, 132))
    assert twice == pytest.approx(2 * once)
    assert parts_of(DIVISIONS[0], PersistentSettings(prompts=67)).total > 1.4 * once


def test_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"json={tmp_path / 'persistent.json'}"]) == 0
    report = json.loads((tmp_path / "persistent.json").read_text(encoding="utf-8"))
    rows = report["divisions"]
    assert [row["why_not"] is None for row in rows] == [True, True, True, True, False, True]
    assert f"{rows[0]['sum']:.1f}" in capsys.readouterr().out


def test_a_shape_without_a_persistent_loop(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["points=120"]) == 2
    message = capsys.readouterr().err
    assert message.startswith("benchmarks.persistent: points, width, heads have no persistent loop")
    assert message.count("\n") == 1
