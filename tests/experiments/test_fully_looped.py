"""The fully looped connectivities: their errors, plateaus and collapses, and their norms in
training."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from looplab.conf.mistakes import RunError
from looplab.conf.schema import Config, LoopsConfig, ModelConfig, TrainingConfig
from looplab.evaluation import load_run
from looplab.evaluation.evaluate_run import logged
from looplab.evaluation.panel import Panel
from looplab.experiments import fully_looped
from looplab.experiments.fully_looped import (
    collapse,
    final_error,
    initial_error,
    measure,
    plateau_exit,
)
from looplab.models.loops.connected import CONNECTIVITIES
from looplab.training import Run
from tests.conftest import without_rendering
from tests.experiments.checks import check_panels, narrow, trained_as_members
from tests.experiments.texts import give, run

STEPS = 12
LONG = 1000
FALLING = np.linspace(1.0, 0.2, LONG)


def runs_of(folder: Path, *cells: tuple[str, int]) -> list[Config]:
    """Two seeds of each connectivity and number of loops."""
    found = []
    for name, loops in cells:
        model = ModelConfig(n_layer=2, injection="none", block="flt")
        model = replace(model, connectivity=name)  # type: ignore[arg-type]
        found += [replace(narrow(folder, model, loops, STEPS), seed=seed) for seed in (0, 1)]
    return found


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Run]]:
    folder = tmp_path_factory.mktemp("variants")
    cells = [(name, K) for name in CONNECTIVITIES for K in (2, 3)]
    with pytest.MonkeyPatch.context() as patch:
        without_rendering(patch)
        found = trained_as_members(runs_of(folder, *cells, ("LT", 1)))
        yield [load_run(each.path) for each in found]


def test_there_is_every_variant_and_number_of_loops(runs: list[Run]) -> None:
    settings = runs[0].config.evaluation
    result = measure(runs, settings)
    plain = {key: value for key, value in result.items() if key != "panels"}
    assert json.loads(json.dumps(plain)) == plain
    assert (result["loops"], result["seeds"], result["points"]) == ([2, 3], [0, 1], [10, STEPS])
    assert list(result["variants"]) == list(CONNECTIVITIES)
    assert result["plain"] == [final_error(run, settings) for run in runs[-2:]]
    at = 2 * (2 * list(CONNECTIVITIES).index("FLT") + 1)
    cell, pair = result["variants"]["FLT"]["3"], runs[at : at + 2]
    assert cell["error"] == [final_error(run, settings) for run in pair]
    assert cell["initial"] == [initial_error(run.config) for run in pair]
    assert cell["left"] == [None, None]
    weights = 0.98 ** np.arange(STEPS - 1, -1, -1)
    for name, divisor in (("loss", 3), ("last_residual", 1), ("mlp_grad_norm", 1)):
        values = [[record[name] for record in logged(run)] for run in pair]
        curve = np.mean(values, axis=0) / divisor
        expected = (weights * curve).sum() / weights.sum()
        assert cell["curves"][name][-1] == pytest.approx(expected)
        if name != "loss":
            last_tenth = [np.mean(of[-2:]) for of in values]
            assert cell[name] == pytest.approx(last_tenth)
    names = check_panels(result["panels"])
    assert "variants-plateau" not in names  # none has left its plateau
    panels: dict[str, Panel] = {panel.name: panel for panel in result["panels"]}
    assert list(panels["variants"].x) == [2, 3]
    (curve,) = (each for each in panels["variants"].curves if each.label == "FLT")
    assert curve.mean[1] == pytest.approx(np.mean(cell["error"]))
    assert panels["variants"].levels == {"one loop": pytest.approx(np.mean(result["plain"]))}
    drawn = panels["fully-looped-FLT-first-residual"].curves[1]
    assert (drawn.label, drawn.mean) == ("K = 3", cell["curves"]["first_residual"])


def test_back_up() -> None:
    """0.5 above its best at the end, and not only for a moment on the way."""
    back = np.where(np.arange(LONG) < 600, FALLING, 1.2)
    assert collapse(back) == "ends 0.5 above its best"
    assert collapse(np.where(np.arange(LONG) < 600, FALLING, 0.9)) == ""
    spike = FALLING + 3.0 * (np.abs(np.arange(LONG) - 500) < 50)
    assert collapse(spike) == ""


def test_worse_than_one_loop() -> None:
    assert collapse(FALLING, final=0.31, plain=0.2) == "error above 1.5 x that of one loop"
    assert collapse(FALLING, final=0.29, plain=0.2) == ""
    assert collapse(FALLING, final=0.31) == ""


def test_plateau_is_left_where_the_smoothed_loss_falls() -> None:
    losses = np.where(np.arange(LONG) < 400, 1.0, 0.2)
    # After m low losses about 1 - 0.8 (1 - 0.98^m) is left of it: 0.7 is passed at m = 24.
    assert plateau_exit(losses, 0.7) == 424
    assert plateau_exit(losses, 0.1) is None
    assert plateau_exit(np.full(LONG, 0.5), 0.7) == 50


def test_norms_at_the_end_and_who_collapsed(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("first_residual", "last_residual", "mlp_grad_norm", "mlp_grad_norm_clipped")
    runs = [
        run(
            f"{b}-{seed}",
            seed,
            loops=LoopsConfig(b=b, T=1, grad_loops="all"),
            model_config=ModelConfig("looped", 2, 16, 2, 8, "none", "flt", connectivity="LT"),
            training=TrainingConfig(steps=400),
        )
        for b in (1, 2, 4)
        for seed in (0, 1)
    ]
    # Two loops of the second seed stay on a plateau from the first step.
    bits = {each.path.name: np.full((20, each.config.loops.b), 2.0) for each in runs}
    bits["2-1"] += 1.5
    logs = {}
    for each in runs:
        b, seed = each.config.loops.b, each.config.seed
        collapses = (b, seed) == (4, 1)
        logs[each.path.name] = [
            {
                "step": step,
                "loss": 3.0 if collapses and step > 150 else 1.0,
                **dict.fromkeys(names, (b + seed) * (1.0 if step > 360 else 99.0)),
            }
            for step in range(1, 401)
        ]
    give(monkeypatch, fully_looped, bits, logs)
    result = measure(runs, runs[0].config.evaluation)
    few, many = (result["variants"]["LT"][str(b)] for b in (2, 4))
    assert few["first_residual"] == [2.0, 3.0]
    assert many["mlp_grad_norm"] == [4.0, 5.0]
    assert few["collapse"] == ["", "error above 1.5 x that of one loop"]
    assert many["collapse"][0] == ""
    assert "above its best" in many["collapse"][1]
    assert few["initial"] == few["left"] == [None, None]
    panels = [panel for panel in result["panels"] if panel.name.startswith("norms")]
    assert [panel.x for panel in panels] == [[1, 2, 4]] * 4
    give(monkeypatch, fully_looped, bits)
    with pytest.raises(RunError, match=r"log_norms=true"):
        measure(runs, runs[0].config.evaluation)
