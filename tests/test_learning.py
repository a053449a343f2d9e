"""An end-to-end run that really learns: linear functions of one variable, from the prompt alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from reloop.conf.schema import (
    Config,
    EvaluationConfig,
    LoopsConfig,
    ModelConfig,
    TaskConfig,
    TrainingConfig,
)
from reloop.evaluation import evaluate
from reloop.evaluation.bootstrap import numbers
from reloop.training import train


@pytest.mark.parametrize(
    ("family", "injection"),
    [("looped", "add"), pytest.param("tied", "none", marks=pytest.mark.slow)],
)
def test_one_dimensional_regression_is_learned_in_context(
    family: str, injection: str, tmp_path: Path
) -> None:
    config = Config(
        task=TaskConfig("linear", dims=1, points=8),
        model=ModelConfig(family=family, n_embd=32, n_head=4, n_positions=8, injection=injection),  # type: ignore[arg-type]
        loops=LoopsConfig(b=4, T=4),
        training=TrainingConfig(
            steps=300,
            batch_size=64,
            optimizer="muon",
            muon_rate=0.02,
            learning_rate=4e-3,
            beta2=0.98,
            clip=1.0,
            warmup=50,
            decay=0.4,
            init_std=0.1,
            position_std=0.1,
        ),
        evaluation=EvaluationConfig(prompts=400, resamples=100),
        folder=str(tmp_path),
    )
    result = evaluate(train(config), config.evaluation)
    error = result["by_examples"]["model_at_b"]
    # Predicting zero scores one; only a model that reads the examples gets under half of that.
    assert numbers(error["high"])[1:].max() < 0.5 * numbers(error["mean"])[0]
