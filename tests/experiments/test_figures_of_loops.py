"""Figures of residual scaling in experiments: measured once, found again, drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from looplab.experiments import near_init
from looplab.experiments.claims import Measured
from looplab.experiments.command import main
from looplab.experiments.measuring import Measurement, Request, measure_runs
from looplab.training.run_folder.files import read_record
from tests.experiments.checks import check_panels

ENTRIES: dict[str, dict[str, Any]] = {
    "toy": {"loops": [1, 3], "seeds": 2},
    "changes": {"loops": [1, 4, 6], "seeds": 2},
}
SWEEP = """
title: A tiny sweep
source: a test
measure: residual_scaling
small:
  seeds: 2
  runs:
    - {label: "{model.residual_scaling}, {loops.b}", task: linear, task.dims: 2, task.points: 4,
       model: unnormed, model.residual_scaling: [sqrt, linear], model.n_embd: 8, model.n_head: 1,
       loops.b: [1, 2], training.steps: 4, training.batch_size: 4, training.warmup: 0,
       training.optimizer: adamw, training.learning_rate: [1.0e-3, 1.0e-2, 1.0e+30],
       training.log_every: 1}
  evaluation: {prompts: 8, resamples: 10, baselines: []}
  settings: [{figure: sweep, panels: [sweep-linear]}]
"""


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few steps and few loops."""
    for name, value in (
        ("STEPS", 2), ("_FACTORS", (0.5,)), ("COSINE_LOOPS", 3), ("COSINE_LAYERS", 2),
    ):  # fmt: skip
        monkeypatch.setattr(near_init, name, value)


def asked(
    folder: Path, *entries: Mapping[str, Any], runs: Sequence[Measured] = (), stored: bool = False
) -> Measurement:
    return measure_runs("residual_scaling", Request(entries, runs, str(folder), 1, stored))


@pytest.mark.parametrize("figure", ENTRIES)
def test_a_figure_is_measured_once_and_found_again(figure: str, tmp_path: Path) -> None:
    entry = {"figure": figure, **ENTRIES[figure]}
    nothing = asked(tmp_path, entry, stored=True)
    assert (nothing.results, list(nothing.panels)) == ({}, [])
    assert nothing.missing == ("residual_scaling: not measured yet",)
    assert not list(tmp_path.iterdir())

    found = asked(tmp_path, entry)
    assert not found.missing
    assert list(found.results) == ["residual_scaling"]
    check_panels(found.panels)
    again = asked(tmp_path, entry, stored=True)
    assert (again.results, again.panels) == (found.results, found.panels)


@pytest.mark.usefixtures("undrawn")
def test_a_sweep_is_trained_and_drawn_by_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """At the highest rate its runs diverge, which is said, and the sweep is made of it."""
    monkeypatch.chdir(tmp_path)
    Path("tiny.yaml").write_text(SWEEP, encoding="utf-8")
    assert main(["experiment=tiny.yaml", "jobs=1"]) == 1
    assert "not finite" in capsys.readouterr().err
    content = read_record(Path("runs/experiments/tiny-small/result.json"), "experiment").content
    assert content is not None
    assert [panel["name"] for panel in content["panels"]] == ["sweep-linear"]
    assert "4 of 12 runs collapsed" in content["panels"][0]["title"]
    assert len(content["missing"]) == 8
