"""Exploding gradients: who has them, and the claims on them."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from looplab.conf.schema import Config, EvaluationConfig
from looplab.evaluation.statistics import NotMeasured
from looplab.experiments import instability
from looplab.experiments.claims import find_claim
from looplab.experiments.evidence import Evidence
from looplab.training import Run
from tests.experiments.checks import panels_of

_STEPS = 60


def _config(seed: int, **changes: Any) -> Config:
    config = Config(seed=seed)
    for key, value in changes.items():
        group, name = key.split("_", 1)
        part = replace(getattr(config, group), **{name: value})
        config = replace(config, **{group: part})
    return config


def _last_over_least(end: float) -> float:
    """Of the running mean of 40 losses of 1, 10 of .5 and 10 of `end`, with weights that decay by
    a tenth a step."""
    losses = np.repeat([1.0, 0.5, end], [40, 10, 10])
    means = [
        float(np.average(losses[:count], weights=0.9 ** np.arange(count)[::-1]))
        for count in (50, 60)
    ]
    return means[1] / means[0]


def test_an_explosion_is_one_gradient_a_hundred_times_the_usual(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The whole window's explode, clipping leaves them large, decay's second seed ends early."""
    configs = {
        5: [_config(seed, loops_T=5) for seed in (0, 1)],
        5_000: [_config(seed, loops_T=20) for seed in (0, 1)],
        40: [_config(seed, loops_T=20, training_clip=1.0) for seed in (0, 1)],
        7: [_config(0, loops_T=20, training_weight_decay=0.1)],
    }
    logs, runs = {}, []
    for largest, of in configs.items():
        for config in of:
            run = Run(
                Path(f"{largest}-{config.seed}"), config, cast(Any, None), cast(Any, None), _STEPS
            )
            norms = np.full(_STEPS, 2.0 + config.seed)
            norms[30] *= largest
            losses = np.where(np.arange(_STEPS) < 40, 1.0, 0.5)
            losses[50:] = 0.001 * largest
            columns = zip(norms.tolist(), losses.tolist(), strict=True)
            logs[run.path] = [{"grad_norm": norm, "loss": loss} for norm, loss in columns]
            runs.append(run)
    monkeypatch.setattr(instability, "logged", lambda run: logs[run.path])
    monkeypatch.setattr(
        instability, "final_error", lambda run, settings: logs[run.path][-1]["loss"]
    )
    early = _config(1, loops_T=20, training_weight_decay=0.1)
    result = instability.measure(runs, EvaluationConfig(), [early])
    assert result["exploded"] == {"T = 5": 0, "T = 20": 2, "clipping": 0, "decay": 1}
    assert [panel.title for panel in panels_of(instability, result)] == [
        "T = 5: 0 of 2 explode",
        "T = 20: 2 of 2 explode",
        "clipping: 0 of 2 explode",
        "decay: 1 of 2 explode",
    ]
    evidence = Evidence(results={"instability": result})
    of_windows = find_claim("instability_whole_window_explodes").estimate(evidence)
    assert of_windows.mean == pytest.approx(1_000)
    ratios = {
        f"{name}_{quantity}": find_claim(f"instability_{name}_{quantity}").estimate(evidence).mean
        for name in ("whole_window", "clipping_cures")
        for quantity in ("spikes", "final_error")
    }
    # The running mean of ten losses that rise from .5 to 5, over its least; T = 5 only falls.
    assert ratios["whole_window_final_error"] == pytest.approx(1_000)
    assert ratios["clipping_cures_final_error"] == pytest.approx(8)
    assert ratios["whole_window_spikes"] == pytest.approx(_last_over_least(5.0))
    # With clipping the loss only falls, too: all of the rise is cured.
    assert ratios["clipping_cures_spikes"] == pytest.approx(1 / _last_over_least(5.0))
    for name in ("decay", "precision"):  # a seed ended early; no run at all
        with pytest.raises(NotMeasured, match=f"a training of {name} is not finished"):
            find_claim(f"instability_{name}_cures_spikes").estimate(evidence)
    assert math.isfinite(of_windows.high)
