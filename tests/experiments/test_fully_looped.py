"""The fully looped connectivities: their plateaus and collapses, and their norms in training."""

import math
from dataclasses import replace

import numpy as np
import pytest

from looplab.conf.mistakes import RunError
from looplab.conf.schema import LoopsConfig, ModelConfig, TrainingConfig
from looplab.experiments import fully_looped
from looplab.experiments.fully_looped import collapse, measure, plateau_exit
from looplab.training.inside_loops import GRADIENT_NORMS
from tests.experiments.checks import give, panels_of, run

LONG = 1000
FALLING = np.linspace(1.0, 0.2, LONG)


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
    names = ("first_residual", "last_residual", *GRADIENT_NORMS)
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
    # One change of 349 is log 99, the others none.
    assert few["swing"] == pytest.approx([math.log(99) * math.sqrt(348) / 349] * 2)
    # The norms of the end are a 99th of those of a fourth of the way, and stand in the first half.
    assert few["rise"] == pytest.approx([1 / 99] * 2)
    assert few["mlp_gradient_swing"] == many["head_gradient_swing"] == [0.0, 0.0]
    panels = panels_of(fully_looped, result)
    norms = [panel for panel in panels if panel.name.startswith("norms")]
    assert [panel.x for panel in norms] == [[1, 2, 4]] * 6
    give(monkeypatch, fully_looped, bits)
    with pytest.raises(RunError, match=r"log_norms=true"):
        measure(runs, runs[0].config.evaluation)


def test_kinds_of_attention_are_variants_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """And gradients swing by the change of their logarithm in the first half."""
    names = ("first_residual", "last_residual", *GRADIENT_NORMS)
    shape = ModelConfig("looped", 2, 16, 2, 8, "none", "flt", connectivity="FLT")
    grouped = replace(shape, attention="grouped", n_kv=1)
    runs = [
        run(
            model.attention,
            0,
            loops=LoopsConfig(b=2, T=1, grad_loops="all"),
            model_config=model,
            training=TrainingConfig(steps=200),
        )
        for model in (shape, grouped)
    ]
    bits = {each.path.name: np.full((20, 2), 2.0) for each in runs}
    logs = {}
    for each in runs:
        swing = 2.0 if each.config.model.attention == "grouped" else 1.0
        logs[each.path.name] = [
            {"step": step, "loss": 1.0, **dict.fromkeys(names, swing ** (step % 2))}
            for step in range(1, 201)
        ]
    give(monkeypatch, fully_looped, bits, logs)
    variants = measure(runs, runs[0].config.evaluation)["variants"]
    assert [*variants] == ["FLT", "FLT_grouped"]
    assert variants["FLT"]["2"]["attention_gradient_swing"] == [0.0]
    swings = variants["FLT_grouped"]["2"]["attention_gradient_swing"]
    assert swings == pytest.approx([math.log(2)], rel=1e-3)
