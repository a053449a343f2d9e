"""Exploding gradients: who has them, and the claims on them."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from looplab.conf.schema import Config, EvaluationConfig
from looplab.experiments import instability
from looplab.experiments.claims import Evidence, NotMeasured, find_claim
from looplab.training import Run

_STEPS = 60


def _config(seed: int, **changes: Any) -> Config:
    config = Config(seed=seed)
    for key, value in changes.items():
        group, name = key.split("_", 1)
        part = replace(getattr(config, group), **{name: value})
        config = replace(config, **{group: part})
    return config


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
            logs[run.path] = [{"grad_norm": float(norm)} for norm in norms]
            runs.append(run)
    monkeypatch.setattr(instability, "logged", lambda run: logs[run.path])
    early = _config(1, loops_T=20, training_weight_decay=0.1)
    result = instability.measure(runs, EvaluationConfig(), [early])
    assert result["exploded"] == {"T = 5": 0, "T = 20": 2, "clipping": 0, "decay": 1}
    evidence = Evidence(results={"instability": result})
    of_windows = find_claim("instability_whole_window_explodes").estimate(evidence)
    assert of_windows.mean == pytest.approx(1_000)
    assert find_claim("instability_clipping_cures").estimate(evidence).mean == pytest.approx(40)
    for name in ("decay", "precision"):  # one seed has no spread; no run at all
        with pytest.raises(NotMeasured):
            find_claim(f"instability_{name}_cures").estimate(evidence)
    assert math.isfinite(of_windows.high)
