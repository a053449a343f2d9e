"""Prompts of the control, whose functions all have the weights w = 1."""

import torch

from looplab.probing.fit import control_prompts
from looplab.tasks import make_task
from tests.tasks.conftest import assert_mean, assert_variance_per_prompt, generator


def test_the_inputs_are_those_of_the_task_and_the_outputs_their_sums() -> None:
    """The outputs of the two have the same variance and nothing else in common."""
    task = make_task("linear", 5)
    control, ones = control_prompts(task, generator(), batch=4000, points=8)
    prompts, weights = task.draw(generator(), batch=4000, points=8)
    assert torch.equal(ones, torch.ones(4000, 5))
    torch.testing.assert_close(control.ys, control.xs.sum(2), rtol=1e-5, atol=1e-5)
    assert torch.equal(control.xs, prompts.xs)
    assert len(weights.unique()) > 19_000
    assert_variance_per_prompt(control.ys, task.divisor)
    assert_mean((control.ys * prompts.ys).mean(1), 0.0)
