"""Figures of residual scaling in experiments: measured once, found again, drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import LoopsConfig
from looplab.experiments import near_init
from looplab.experiments.claims import Measured
from looplab.experiments.command import main
from looplab.experiments.measuring import Measurement, Request, measure_runs
from looplab.training import train
from looplab.training.run_folder.files import read_record
from tests.conftest import tiny_config
from tests.experiments.checks import check_panels, handed_over

ENTRIES: dict[str, dict[str, Any]] = {
    "toy": {"loops": [1, 3], "seeds": 2},
    "norms": {"init": "strong", "loops": [1, 3], "seeds": 2},
    "cosines": {"seeds": 2},
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
       training.optimizer: adamw, training.learning_rate: [1.0e-3, 1.0e-2, RATE],
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


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"figure": "toys"}, "figure cannot be 'toys'; did you mean 'toy'?"),
        ({"figure": "toy", "lops": 3}, "lops is not a setting; did you mean 'loops'?"),
        ({"figure": "norms", "init": "week"}, "init cannot be 'week'; did you mean 'weak'?"),
        ({"figure": "toy", "seeds": 1}, "settings.seeds must be at least 2"),
        ({"figure": "toy", "loops": [0]}, "settings.loops must be at least 1"),
        ({"seeds": 3}, "figure cannot be ''"),
    ],
)
def test_a_mistake_in_a_file_is_one_line(entry: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=said.replace("?", r"\?")):
        asked(tmp_path, entry)


def test_trained_runs_are_the_experiments_own(tmp_path: Path) -> None:
    config = tiny_config(tmp_path)
    model = replace(config.model, injection="none", norm="at_readout", residual_scaling="linear")
    training = replace(config.training, steps=2)
    runs = []
    for b, seed in ((2, 0), (2, 1), (3, 0)):
        loops = LoopsConfig(b, 1, "all")
        run = train(replace(config, model=model, training=training, loops=loops, seed=seed))
        runs.append(handed_over(run, f"R = {b}"))
    found = asked(tmp_path, {"figure": "trained"}, runs=runs)
    assert check_panels(found.panels) == [
        "trained-norms", "trained-cosines-1", "trained-cosines-2", "trained-cosines-by-distance",
    ]  # fmt: skip
    norms_of = found.panels[0].curves
    assert [curve.label for curve in norms_of] == ["b = 2", "b = 3"]
    assert norms_of[0].mean[3] is None
    result = found.results["residual_scaling"]
    assert len(result["runs"]) == 3
    both = np.mean([run["norm"]["mean"] for run in result["runs"][:2]], axis=0)
    assert norms_of[0].mean[:3] == pytest.approx(both.tolist())


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("rate", ["1.0e-1", "1.0e+30"])
def test_a_sweep_is_trained_and_drawn_by_the_engine(
    rate: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """At the highest rate its runs may diverge, which is said, and the sweep is made of it."""
    monkeypatch.chdir(tmp_path)
    Path("tiny.yaml").write_text(SWEEP.replace("RATE", rate), encoding="utf-8")
    diverges = rate == "1.0e+30"
    assert main(["experiment=tiny.yaml", "jobs=1"]) == int(diverges)
    assert ("not finite" in capsys.readouterr().err) == diverges
    content = read_record(Path("runs/experiments/tiny-small/result.json"), "experiment").content
    assert content is not None
    assert [panel["name"] for panel in content["panels"]] == ["sweep-linear"]
    assert ("4 of 12 runs collapsed" in content["panels"][0]["title"]) == diverges
    assert len(content["missing"]) == 8 * diverges
