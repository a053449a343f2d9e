"""The Lasso at several penalties, on sparse functions without noise."""

import pytest

from looplab.conf.schema import EvaluationConfig
from looplab.experiments import lasso_penalty
from tests.experiments.checks import check_panels, panels_of


def test_a_penalty_is_compared_with_the_best_of_the_others() -> None:
    settings = EvaluationConfig(resamples=40)
    result = lasso_penalty.measure([], settings, dims=4, sparsity=1, prompts=30)
    means = {name: interval.mean.mean() for name, interval in result["curves"].items()}
    least = min(means, key=means.__getitem__)
    others = sorted(means.values())
    assert means["1"] > means["0.1"] > means[least]
    assert result["over_others"][least].mean == pytest.approx(others[0] / others[1])
    assert result["over_others"]["1"].mean == pytest.approx(means["1"] / others[0])
    assert check_panels(panels_of(lasso_penalty, result)) == ["lasso-penalties"]
