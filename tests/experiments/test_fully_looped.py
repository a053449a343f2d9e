"""The fully looped connectivities: their errors, plateaus and collapses, and their norms in
training."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from looplab.conf.schema import Config, ModelConfig
from looplab.evaluation.panel import Panel
from looplab.experiments import fully_looped
from looplab.experiments.claims import Measured
from looplab.experiments.definition import load, members_of
from looplab.experiments.fully_looped import in_training, variants
from looplab.experiments.residual_scaling_trained import final_error, initial_error, logged_curve
from looplab.models.loops.connected import CONNECTIVITIES, ConnectedLoop
from looplab.training.assemble import build_model, build_task
from tests.conftest import without_rendering
from tests.experiments.checks import check_panels, narrow, trained_as_members

STEPS = 12


def runs_of(folder: Path, *cells: tuple[str, int]) -> list[Config]:
    """Two seeds of each connectivity and number of loops."""
    found = []
    for name, loops in cells:
        model = ModelConfig(n_layer=2, injection="none", block="flt")
        model = replace(model, connectivity=name)  # type: ignore[arg-type]
        found += [replace(narrow(folder, model, loops, STEPS), seed=seed) for seed in (0, 1)]
    return found


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Measured]]:
    folder = tmp_path_factory.mktemp("variants")
    cells = [(name, K) for name in CONNECTIVITIES for K in (2, 3)]
    with pytest.MonkeyPatch.context() as patch:
        without_rendering(patch)
        yield trained_as_members(runs_of(folder, *cells, ("LT", 1)))


@pytest.mark.parametrize("name", CONNECTIVITIES)
def test_each_variant_is_trained_as_itself(name: str) -> None:
    members = members_of(load("fully_looped_table1"), "medium")
    config = next(each.config for each in members if each.label == f"{name}, K = 4")
    model = build_model(config, build_task(config))
    assert isinstance(model.loop, ConnectedLoop)
    assert model.loop.connectivity == name
    assert (model.spec.block, model.spec.n_layer, config.loops.b) == ("flt", 2, 4)
    training = config.training
    assert (training.learning_rate, training.clip, training.decay) == (1e-3, 1.0, 0.2)


def test_there_is_every_variant_and_number_of_loops(runs: list[Measured]) -> None:
    result = variants(runs)
    plain = {key: value for key, value in result.items() if key != "panels"}
    assert json.loads(json.dumps(plain)) == plain
    assert list(result["variants"]) == list(CONNECTIVITIES)
    assert (result["loops"], result["seeds"]) == ([2, 3], [0, 1])
    for by_loops in result["variants"].values():
        assert list(by_loops) == ["2", "3"]
        for found in by_loops.values():
            assert [len(found["error"]), len(found["initial"]), len(found["collapse"])] == [2] * 3
            assert found["left"] == [None, None]
    assert result["plain"] == [final_error(run) for run in runs[-2:]]
    at = 2 * (2 * list(CONNECTIVITIES).index("FLT") + 1)
    cell = result["variants"]["FLT"]["3"]
    assert cell["error"] == [final_error(run) for run in runs[at : at + 2]]
    assert cell["initial"] == [initial_error(run.config) for run in runs[at : at + 2]]
    assert check_panels(result["panels"]) == ["variants"]  # none has left its plateau
    (panel,) = result["panels"]
    assert list(panel.x) == [2, 3]
    (curve,) = (each for each in panel.curves if each.label == "FLT")
    assert curve.mean[1] == pytest.approx(np.mean(cell["error"]))
    assert panel.levels == {"one loop": pytest.approx(np.mean(result["plain"]))}


def test_panels_where_every_run_diverged() -> None:
    cell = {"error": [None], "initial": [1.0], "left": [None], "collapse": ["not finite"]}
    result = {"loops": [2], "plain": [None], "steps": 2, "variants": {"LT": {"2": cell}}}
    assert fully_looped._panels(result) == []
    cell |= {"error": [0.5], "left": [70]}
    error, plateau = fully_looped._panels(result)
    assert (error.levels, plateau.name, plateau.curves[0].mean) == ({}, "variants-plateau", [70])
    assert "1 of 1 runs collapsed" in error.title


def test_a_variant_worse_than_one_loop_collapsed(monkeypatch: pytest.MonkeyPatch) -> None:
    losses, errors = 3 * np.linspace(1, 0.4, 300), iter([0.5, np.nan] * 2)
    config = members_of(load("fully_looped_table1"), "small")[0].config
    pair = [Measured("LT", replace(config, seed=seed), 300, {}) for seed in (0, 1)]
    monkeypatch.setattr(fully_looped, "logged_curve", lambda run, name: losses)
    monkeypatch.setattr(fully_looped, "final_error", lambda run: next(errors))
    monkeypatch.setattr(fully_looped, "initial_error", lambda config: 1.1)
    found = fully_looped._cell(pair, 0.3)
    assert found["collapse"] == ["error above 1.5 x that of one loop", "not finite"]
    assert found["error"] == [0.5, None]
    assert found["left"][0] is not None
    assert fully_looped._cell(pair, None)["collapse"][0] == ""


@pytest.mark.slow
def test_fully_looped_models_learn(tmp_path: Path) -> None:
    """To below 0.7 of the initial error by step 2,000."""
    labels = [f"{name}, K = 4" for name in ("LT_i", "FLT", "FLT_res")]
    members = members_of(load("fully_looped_table1"), "medium", str(tmp_path), seeds=1)
    configs = [each.config for each in members if each.label in labels]
    for found in trained_as_members(configs):
        assert final_error(found) < 0.7 * initial_error(found.config), found.config.model


@pytest.mark.parametrize(("steps", "drawn"), [(3, [3]), (12, [10, 12]), (20, [10, 20])])
def test_the_last_step_is_always_drawn(
    steps: int, drawn: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_rendering(monkeypatch)
    configs = [
        replace(each, training=replace(each.training, steps=steps))
        for each in runs_of(tmp_path, ("LT", 1))
    ]
    result = in_training(trained_as_members(configs))
    assert result["steps"] == drawn
    found = result["curves"]["LT"]["1"]["last_residual"]
    assert len(found) == len(drawn)
    assert all(value is not None for value in found)


def test_norms_are_the_smoothed_logs(runs: list[Measured]) -> None:
    chosen = [run for run in runs[:-2] if run.config.model.connectivity in ("LT", "FLT")]
    result = in_training(chosen)
    assert list(result["curves"]) == ["LT", "FLT"]
    assert result["steps"] == [10, STEPS]
    pair = [run for run in chosen if run.config.loops.b == 3][-2:]
    weights = 0.98 ** np.arange(STEPS - 1, -1, -1)
    for name, divisor in (("loss", 3), ("last_residual", 1), ("mlp_grad_norm", 1)):
        curve = np.mean([logged_curve(run, name) for run in pair], axis=0) / divisor
        expected = (weights * curve).sum() / weights.sum()
        assert result["curves"]["FLT"]["3"][name][-1] == pytest.approx(expected)
    check_panels(result["panels"])
    panels: dict[str, Panel] = {panel.name: panel for panel in result["panels"]}
    drawn = panels["fully-looped-LT-first-residual"].curves[1]
    assert (drawn.label, drawn.mean) == ("K = 3", result["curves"]["LT"]["3"]["first_residual"])
