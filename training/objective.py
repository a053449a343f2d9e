"""The targets of training, the loss of a task, and its error in evaluations."""

import torch
from torch import Tensor
from torch.nn import functional as F

from looplab.conf.mistakes import ConfigError
from looplab.tasks import Prompts, Task


def check_targets(kind: str, task: Task) -> None:
    """Raises ConfigError for targets that the task does not have."""
    if kind == "posterior_mean" and (reason := task.no_posterior_mean()):
        raise ConfigError("training.targets", f"cannot be posterior_mean: {reason}")


def targets(kind: str, task: Task, prompts: Prompts, dims: int) -> Tensor:
    """The targets of a prompt's predictions, [B, n]: its outputs, or the posterior mean of each
    given the pairs before it.

    The mean over prompts of the squared distance differs by a constant, the Bayes error, so that
    the optimum is the same; the gradient's noise is less.
    """
    # With m = E[y | pairs before], E (f − y)² = E (f − m)² + E (y − m)²: the last has no gradient.
    return prompts.ys if kind == "outputs" else task.posterior_mean(prompts, dims)


def loss(kind: str, predictions: Tensor, ys: Tensor) -> Tensor:
    """Mean over the window's loops, the batch and all prefixes (Yang et al. 2024, eq. 3).

    predictions [window, B, n] and ys [B, n] for `squared_error`; for `cross_entropy`, of two
    classes, [window, B, n, 2] and label tokens: class 1 has the token above 0; for `next_token`
    [window, B, n, vocabulary] and tokens, in nats.
    """
    if kind == "squared_error":
        # ys [B, n] broadcasts over the window: every loop in it has the same targets.
        return (predictions - ys).square().mean()
    numbers = ys if kind == "next_token" else _classes(ys)
    # [window, B, n], as the logits' leading axes: both are one list of predictions below.
    targets = numbers.expand(predictions.shape[:-1])
    return F.cross_entropy(predictions.flatten(0, -2), targets.flatten())


def error(kind: str, predictions: Tensor, ys: Tensor) -> Tensor:
    """Error of each prediction, [..., B, n]: squared, 1 where the likeliest class is wrong, or nats
    of the next token."""
    if kind == "squared_error":
        return (predictions - ys).square()
    if kind == "next_token":
        numbers = ys.expand(predictions.shape[:-1])
        # −log softmax(logits)[token], with the natural logarithm.
        nats = F.cross_entropy(predictions.flatten(0, -2), numbers.flatten(), reduction="none")
        return nats.view(numbers.shape)
    return (predictions.argmax(-1) != _classes(ys)).to(torch.float32)


def _classes(ys: Tensor) -> Tensor:
    return (ys > 0).long()
