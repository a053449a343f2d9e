"""The table of fully looped connectivities, and the figure of their norms in training."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from looplab.evaluation.tables import document
from looplab.experiments.population import Errors
from looplab.experiments.stability import fully_looped, sweep, variants
from looplab.experiments.stability.settings import StabilitySettings
from looplab.experiments.stability.variants import report, variant_runs
from looplab.models.loops.connected import CONNECTIVITIES, ConnectedLoop
from looplab.training.assemble import build_model, build_task
from tests.conftest import times_of


@pytest.fixture(scope="module", autouse=True)
def _narrow() -> Iterator[None]:
    """Models and batches that take no time."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("WIDTH", "BATCH"):
            patch.setattr(sweep, name, 8)
        yield


@pytest.fixture(scope="module")
def measured(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[StabilitySettings, dict[str, Any]]:
    folder = str(tmp_path_factory.mktemp("variants"))
    settings = StabilitySettings("variants", loops=(1, 2), seeds=2, steps=10, jobs=1, folder=folder)
    return settings, variants.measure(settings)


@pytest.mark.parametrize("name", CONNECTIVITIES)
def test_each_variant_is_trained_as_itself(name: str) -> None:
    config = variant_runs(StabilitySettings("variants"), name, 4).configs[0]
    model = build_model(config, build_task(config))
    assert isinstance(model.loop, ConnectedLoop)
    assert model.loop.connectivity == name
    assert (model.spec.block, model.spec.n_layer, config.loops.b) == ("flt", 2, 4)
    training = config.training
    assert (training.learning_rate, training.clip, training.decay) == (1e-3, 1.0, 0.2)


def test_the_table_has_every_variant_and_number_of_loops(
    measured: tuple[StabilitySettings, dict[str, Any]],
) -> None:
    _, result = measured
    assert json.loads(json.dumps(result)) == result
    assert list(result["variants"]) == list(CONNECTIVITIES)
    for by_loops in result["variants"].values():
        assert list(by_loops) == ["1", "2"]
        for found in by_loops.values():
            assert [len(found["error"]), len(found["initial"]), len(found["collapse"])] == [2] * 3
            assert found["left"] == [None, None]
    lines = document(report(result)).splitlines()
    rows = [
        line.split()[:2] for line in lines if line.split()[:1] and line.split()[0] in CONNECTIVITIES
    ]
    assert rows == [[name, K] for name in CONNECTIVITIES for K in ("1", "2")]
    assert "every seed" not in lines[-1]  # none was trained
    learned = report(result | {"learned": {"FLT": True, "LT_i": False}})
    assert document(learned).endswith(
        "below 0.7 of the initial error at K = 4, every seed: FLT yes, LT_i NO"
    )
    (panel,) = variants.panels(result)
    assert panel.x == [1, 2]
    error = np.mean([error for error in result["variants"]["FLT"]["2"]["error"] if error])
    (curve,) = (each for each in panel.curves if each.label == "FLT")
    assert curve.mean[1] == pytest.approx(error)


def test_panels_where_every_run_diverged() -> None:
    cell = {"error": [None], "initial": [1.0], "left": [None], "collapse": ["not finite"]}
    result = {"loops": [2], "plain": [None], "steps": 2, "variants": {"LT": {"2": cell}}}
    (panel,) = variants.panels(result)
    assert panel.levels == {}
    assert panel.curves[0].mean == [None]


def test_a_variant_worse_than_one_loop_collapsed() -> None:
    losses = 3 * np.linspace(1, 0.4, 300)

    class Trained:
        config = variant_runs(StabilitySettings("variants"), "LT", 2).config

        def curve(self, name: str) -> Any:
            assert name == "loss"
            return np.stack([losses, losses], axis=1)[:, None]

    trained: Any = Trained()
    found: Errors = {"errors": [[0.5, None]], "initial": [[1.1, 1.1]]}
    summed = variants.summed_up(trained, found, 0.3)
    assert summed["collapse"] == ["error above 1.5 x that of one loop", "not finite"]
    assert summed["left"][0] is not None
    assert variants.summed_up(trained, found, None)["collapse"][0] == ""


def test_learned_is_of_every_seed() -> None:
    good, bad = (
        {"error": [0.5, 0.6], "initial": [1.0, 1.0]},
        {"error": [0.5, 0.8], "initial": [1.0] * 2},
    )
    measured: Any = {"LT_i": {"4": good}, "FLT": {"4": bad}, "FLT_res": {"8": good}}
    assert variants._learned(measured) == {"LT_i": True, "FLT": False}
    lost = {"error": [None, 0.5], "initial": [1.0, 1.0]}
    assert variants._learned(measured | {"FLT": {"4": lost}})["FLT"] is False


@pytest.mark.parametrize(("asked_steps", "said"), [(3, ["LT_i", "FLT", "FLT_res"]), (4, [])])
def test_learned_is_said_of_enough_steps(
    asked_steps: int, said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(variants, "ASKED_LOOPS", 2)
    monkeypatch.setattr(variants, "ASKED_STEPS", asked_steps)
    settings = StabilitySettings(
        "variants", loops=(2,), seeds=1, steps=3, jobs=1, folder=str(tmp_path)
    )
    result = variants.measure(settings)
    assert list(result["learned"]) == said
    assert ("at K = 2, every seed" in document(report(result))) == bool(said)


@pytest.mark.slow
def test_fully_looped_models_learn() -> None:
    """To below 0.7 of the initial error by step 2,000."""
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
        for name, value in (("WIDTH", 32), ("BATCH", 32)):
            patch.setattr(sweep, name, value)
        settings = StabilitySettings("variants", seeds=1, jobs=1, folder=folder)
        for name in ("LT_i", "FLT", "FLT_res"):
            found = variant_runs(settings, name, 4)()
            (error,) = found["errors"][0]
            assert error is not None
            assert error < 0.7 * found["initial"][0][0], name


@pytest.mark.parametrize(("steps", "drawn"), [(3, [3]), (12, [10, 12]), (20, [10, 20])])
def test_the_last_step_is_always_drawn(steps: int, drawn: list[int], tmp_path: Path) -> None:
    settings = StabilitySettings(
        "fully_looped", loops=(1,), seeds=1, steps=steps, jobs=1, folder=str(tmp_path)
    )
    result = fully_looped.measure(settings)
    assert result["steps"] == drawn
    assert all(value is not None for value in result["curves"]["LT"]["1"]["last_residual"])
    assert len(result["curves"]["LT"]["1"]["last_residual"]) == len(drawn)


def test_norms_come_from_the_same_training(
    measured: tuple[StabilitySettings, dict[str, Any]],
) -> None:
    """What the table trained is found, nothing is trained again."""
    trained = times_of(Path(measured[0].folder), "**/checkpoints/*")
    settings = StabilitySettings("fully_looped", loops=(1, 2), **_others(measured[0]))
    result = fully_looped.measure(settings)
    assert times_of(Path(settings.folder), "**/checkpoints/*") == trained
    assert json.loads(json.dumps(result)) == result
    assert result["steps"] == [10]
    runs = variant_runs(settings, "FLT", 2)
    weights = 0.98 ** np.arange(9, -1, -1)
    for name, divisor in (("loss", 3), ("last_residual", 1), ("mlp_grad_norm", 1)):
        curve = runs.curve(name)[:, 0].mean(axis=1) / divisor
        expected = (weights * curve).sum() / weights.sum()
        assert result["curves"]["FLT"]["2"][name][-1] == pytest.approx(expected)
    panels = {panel.name: panel for panel in fully_looped.panels(result)}
    curve = panels["fully-looped-LT-first-residual"].curves[1]
    assert (curve.label, curve.mean) == ("K = 2", result["curves"]["LT"]["2"]["first_residual"])
    assert "FLT, 2" in document(fully_looped.report(result))


def _others(settings: StabilitySettings) -> dict[str, Any]:
    names = ("seeds", "steps", "jobs", "folder")
    return {name: getattr(settings, name) for name in names}
