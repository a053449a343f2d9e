"""A task of two classes is evaluated in error rates, the solvers beside it too."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.bootstrap import numbers
from looplab.show.evaluate import evaluate
from looplab.training import Run, train
from looplab.training.validation import evaluation_prompts
from tests.conftest import tiny_config
from tests.tasks import small_tables

SETTINGS = EvaluationConfig(prompts=30, resamples=20, batch_size=16)


@pytest.fixture(params=["corrected", "reference"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """A trained run of small tables."""
    settings = {
        "data_dir": str(small_tables.write(tmp_path)),
        "tables": tuple(small_tables.SIZES),
        "held_out": "beta",
        "protocol": request.param,
    }
    tiny = tiny_config(tmp_path)
    task = replace(tiny.task, name="tables", dims=6, points=7, settings=settings)
    return train(replace(tiny, task=task))


def test_errors_are_rates_of_the_held_out_tables_prompts(run: Run) -> None:
    """Solvers answer with classes, too, whatever tokens stand for them."""
    result = evaluate(run, SETTINGS)
    assert result["error"] == "error rate"
    found = {
        name: numbers(result["by_examples"][name]["mean"])
        for name in ("model_at_b", "majority", "least_squares", "nearest_neighbours")
    }
    prompts = evaluation_prompts(run.task, 30, 7, SETTINGS.seed)
    assert (prompts.xs[:, :, :1] == 0).all()
    assert (prompts.xs[:, :, 1:] != 0).all()  # the five features of beta
    xs, ones = prompts.xs.double().numpy(), prompts.ys.numpy() > 0
    wrong = run.model(prompts, result["b"])[-1].argmax(-1).numpy() != ones
    np.testing.assert_allclose(found["model_at_b"], wrong.mean(0), atol=1e-7)
    signs = np.where(ones, 1.0, -1.0)
    majority, line = np.zeros((2, 30, 7))
    for b in range(30):
        for k in range(7):
            majority[b, k] = (ones[b, :k].mean() > 0.5 if k else False) != ones[b, k]
            w = np.linalg.lstsq(xs[b, :k], signs[b, :k], rcond=1e-6)[0] if k else np.zeros(6)
            line[b, k] = (xs[b, k] @ w > 0) != ones[b, k]
    np.testing.assert_allclose(found["majority"], majority.mean(0))
    np.testing.assert_allclose(found["least_squares"], line.mean(0))
    assert set(np.unique(np.round(found["nearest_neighbours"] * 30, 9) % 1)) == {0}
