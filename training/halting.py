"""Halting that is trained: a second read-out of each state says how likely its loop is the last for
this prediction.

Adaptive computation time (act, Graves 2016, arXiv 1603.08983) predicts the mean of all loops'
predictions by their shares, and pays for the loops. PonderNet (ponder, Banino et al. 2021, arXiv
2107.05407) takes the expected loss, and stays near a geometric distribution.

with TrainedHalting(model, LoopsConfig(b=12, T=12, halt="ponder")) as halting:
    predictions = model(prompts, loops=12, window=12)
error = halting.error(predictions, prompts.ys)
(error + halting.cost).backward()
"""

import math
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from looplab.conf.schema import LoopsConfig
from looplab.models import Model

LOOPS_USED = "halting_loop"  # in metrics.jsonl: the mean number of the window's loops used
_EPSILON = 0.01  # act: the share that may be missing when a prediction halts


class TrainedHalting:
    """Within this context `logits` [window, B, n] are those of the model's last predictions. Their
    `error` sets the `cost`, which training adds to it, and the mean of `loops_used`, [] each."""

    logits: Tensor
    cost: Tensor
    loops_used: Tensor

    def __init__(self, model: Model, loops: LoopsConfig) -> None:
        self._model = model
        self._loops = loops

    def __enter__(self) -> Self:
        self._handle = self._model.read_out.register_forward_hook(self._keep)
        return self

    def __exit__(self, *raised: object) -> None:
        self._handle.remove()

    def _keep(self, layer: nn.Module, inputs: Any, outputs: Tensor) -> None:
        self.logits = outputs[..., -1].to(torch.promote_types(outputs.dtype, torch.float32))

    def error(self, predictions: Tensor, ys: Tensor) -> Tensor:
        """The squared error [] of predictions [window, B, n] for ys [B, n]: of the mean prediction
        (act), or its expectation (ponder). The window's last loop halts all that is left."""
        loop = torch.arange(1, len(predictions) + 1, device=ys.device)[:, None, None]
        if self._loops.halt == "act":
            return self._error_of_mean(predictions, ys, loop)
        # log p_t = Σ_{s<t} log(1 − λ_s) + log λ_t with λ = σ(logit), where the last loop's λ is 1:
        # both terms are padded by a row of 0 along the window, at its start and at its end.
        log_shares = F.pad(F.logsigmoid(-self.logits[:-1]).cumsum(0), (0, 0, 0, 0, 1, 0))
        log_shares = log_shares + F.pad(F.logsigmoid(self.logits[:-1]), (0, 0, 0, 0, 0, 1))
        shares = log_shares.exp()
        # The geometric distribution, p_t ∝ (1 − λ_p)^t, normed over the window's loops.
        log_prior = (loop * math.log(1 - self._loops.halt_prior)).log_softmax(0)
        # KL(p ‖ prior), PonderNet's regulariser.
        distance = (shares * (log_shares - log_prior)).sum(0).mean()
        self.cost = self._loops.halt_cost * distance
        self.loops_used = (shares * loop).sum(0).mean()
        return (shares * (predictions - ys).square()).sum(0).mean()

    def _error_of_mean(self, predictions: Tensor, ys: Tensor, loop: Tensor) -> Tensor:
        shares = self.logits.sigmoid()
        halted = shares.cumsum(0)
        # The first loop by which all but epsilon has halted, or the window's last.
        is_last = (halted >= 1 - _EPSILON) | (loop == len(loop))
        # The running count is 1 from the first true loop to the next: only the first is true there.
        is_last &= is_last.cumsum(0) == 1
        means = (halted_means(predictions, self.logits) * is_last).sum(0)
        self.loops_used = (is_last * loop).sum(0).float().mean()
        # Graves's ponder cost N + R: the number of loops, and the remainder 1 − Σ_{s<N} share.
        rest = (is_last * (1 - halted + shares)).sum(0).mean()  # the cost's only gradient
        self.cost = self._loops.halt_cost * (self.loops_used + rest)
        return (means - ys).square().mean()


def halted_means(predictions: Tensor, logits: Tensor) -> Tensor:
    """What act predicts if each loop is the last, [loops, …] as both arguments: the mean of the
    predictions by their shares, of which the last has all that the loops before it left."""
    shares = logits.sigmoid()
    # Its own share and the rest, 1 − Σ_{s≤t}: the last loop's weights add up to the remainder.
    return (shares * predictions).cumsum(0) + (1 - shares.cumsum(0)) * predictions


def halted_shares(kind: str, logits: Tensor) -> Tensor:
    """The share that has halted after each loop, from logits [loops, …]: the sum of act's shares,
    which may exceed 1, or ponder's probability."""
    if kind == "act":
        return logits.sigmoid().cumsum(0)
    return 1 - F.logsigmoid(-logits).cumsum(0).exp()
