"""The cost of a training step: FLOPs, bytes moved under a given fusion, and the floor on a card or
on this machine's CPU.

    work = work_of(at_full_size(named_config("sparse")))
    work.flops / H100.rates["bf16"]                  # seconds of the arithmetic alone

A model, not a measurement, but for the CPU's rates. It counts the blocks' matrix products and
attention, at all tokens of every loop (our eager loop skips the y tokens after the last attention),
but not read-in and read-out (under 0.1 % at the paper's sizes), norms and GELU.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import nn

from looplab.conf.schema import Config
from looplab.models.cpu import CpuOperations, keep_memory
from looplab.training.assemble import build_curriculum, build_task

# Elements that each kernel of the fusion reads or writes per token and unit of width: those of the
# residual stream and its gradient, and those in two bytes. Weights are assumed to be in the cache.
_FORWARD = {
    "inject, norm, qkv": (3, 3),  # state, e and their sum; q, k, v
    "attention": (0, 4),  # q, k, v; mixed
    "project, add": (2, 1),  # the stream before and after; mixed
    "norm, mlp, add, final norm": (2, 0),  # the stream before and after; nothing in between
}
_BACKWARD = {  # norms, scores and the MLP's hidden layer are computed again
    "mlp": (3, 10),  # stream, two gradients; the four factors of the next two products
    "weights of the mlp": (0, 10),
    "project": (1, 1),
    "weights of the projection": (1, 1),
    "attention": (0, 8),  # q, k, v, mixed and the gradients of them
    "qkv": (5, 4),  # stream, two gradients, that of e read and written; normed, gradient of q, k, v
    "weights of qkv": (0, 4),
}
_ADAM_BYTES = 28  # per parameter: weight, both moments read and written, gradient read, in fp32
_linear = CpuOperations().linear
_REPEATS = 3  # of each product on a CPU, of which the fastest counts
CPU_SOURCE = (
    f"products of PyTorch and oneDNN at the step's shapes, the best of {_REPEATS} in each turn, "
    "the median of the turns; attention at their rate"
)


@dataclass(frozen=True)
class Work:
    """The work of a step: `forwards` and `backwards` count blocks applied to all `tokens` =
    batch x `length`; `parameters` are those of the blocks."""

    width: int
    tokens: int
    length: int
    forwards: int
    backwards: int
    parameters: int

    @property
    def product_flops(self) -> int:
        """Matrix products: 24 D² per token and block, twice that backward."""
        return 24 * self.width**2 * self.tokens * (self.forwards + 2 * self.backwards)

    def attention_flops(self, *, causal: bool = True, backward: float = 2.5) -> float:
        """Scores and their mixture, 4 S D per token (a dense kernel), or 2 (S + 1) D if nothing
        above the diagonal is computed. `backward` is the cost of the backward pass over that of the
        forward pass: 2.5 if the scores are recomputed, 2 if they are stored."""
        keys = (self.length + 1) / 2 if causal else self.length
        return 4 * keys * self.width * self.tokens * (self.forwards + backward * self.backwards)

    @property
    def flops(self) -> float:
        """All of a step with causal attention."""
        return self.product_flops + self.attention_flops()

    def traffic(self, residual_bytes: int = 4) -> int:
        """Bytes to and from memory under the fusion of four forward kernels a block, without
        cache hits; not a floor, as there are many. `residual_bytes` is the size of an element of
        the stream."""
        total = _ADAM_BYTES * self.parameters
        for kernels, times in ((_FORWARD, self.forwards), (_BACKWARD, self.backwards)):
            stream, rest = (sum(part) for part in zip(*kernels.values(), strict=True))
            total += times * self.tokens * self.width * (stream * residual_bytes + 2 * rest)
        return total


@dataclass(frozen=True)
class Card:
    """FLOP per second by precision and bytes per second: constants of the model, from `source`."""

    rates: Mapping[str, float]
    memory: float
    source: str


_HOPPER = {"bf16": 800e12, "tf32": 400e12, "fp32": 67e12}
H100 = Card(
    _HOPPER,
    3.0e12,
    "H100 SXM; bf16 (a large dense product) and memory as measured once on such a card, tf32 half "
    "of bf16, fp32 without tensor cores from the vendor's sheet",
)
H200 = Card(_HOPPER, 4.8e12, "FLOP rates of the H100, whose chip it has; memory: vendor's sheet")
A100 = Card(
    {"bf16": 312e12, "tf32": 156e12, "fp32": 19.5e12}, 2.039e12, "vendor's sheet, dense, SXM 80 GB"
)
# By the driver's full name, so that a PCIe card or a MIG slice does not match.
CARDS = {"NVIDIA H100 80GB HBM3": H100, "NVIDIA H200": H200, "NVIDIA A100-SXM4-80GB": A100}


def card_floor(work: Work, card: Card, precision: str) -> float:
    """Seconds of the arithmetic alone; in `mixed`, bf16 for the blocks without gradients and fp32
    for the others."""
    if precision != "mixed":
        return work.flops / card.rates[precision]
    window = replace(work, forwards=work.backwards).flops
    return (work.flops - window) / card.rates["bf16"] + window / card.rates["fp32"]


def work_of(config: Config, *, last_y: bool = False) -> Work:
    """The work of a step at the curriculum's end; `last_y` if the model also reads the last y,
    on which no prediction depends (the reference does, ours does not)."""
    model, points, batch = config.model, config.task.points, config.training.batch_size
    stage = build_curriculum(config, build_task(config))(config.training.steps)
    per_loop = 1 if model.family == "standard" else model.n_layer
    length = 2 * points - (not last_y)
    return Work(
        width=model.n_embd,
        tokens=batch * length,
        length=length,
        forwards=stage.loops * per_loop,
        backwards=stage.grad_loops * per_loop,
        parameters=model.n_layer * (12 * model.n_embd**2 + 13 * model.n_embd),
    )


@torch.no_grad()
def measured_floor(work: Work, precision: str) -> float:
    """Seconds of a step's arithmetic on a CPU: what the products of all blocks take alone, forward
    and backward for inputs and weights, each the faster of PyTorch's and oneDNN's, with attention's
    FLOPs at the same rate. Of processor time on one thread, else of the clock."""
    keep_memory()
    window = _block_seconds(work, torch.bfloat16 if precision == "bf16" else torch.float32)
    prefix = _block_seconds(work, torch.bfloat16) if precision == "mixed" else window
    without_gradients = work.forwards - work.backwards
    return without_gradients * prefix[0] + work.backwards * sum(window)


def _block_seconds(work: Work, dtype: torch.dtype) -> tuple[float, float]:
    """Seconds of one block's arithmetic at all tokens, forward and backward."""
    width = work.width
    # qkv, projection, expand and contract.
    sizes = ((width, 3 * width), (width, width), (width, 4 * width), (4 * width, width))
    seconds = [_product_seconds(work.tokens, *pair, dtype) for pair in sizes]
    forward, backward = (sum(part) for part in zip(*seconds, strict=True))
    once = replace(work, forwards=1, backwards=0)
    attention = once.attention_flops() / once.product_flops
    # Backward there are 2.5 times the FLOPs of attention, and twice those of the products.
    return forward * (1 + attention), backward * (1 + 1.25 * attention)


def _product_seconds(
    tokens: int, inner: int, outer: int, dtype: torch.dtype
) -> tuple[float, float]:
    """Seconds of one product, and of the two products of its backward pass."""
    x, gradient = (torch.ones(tokens, size, dtype=dtype) for size in (inner, outer))
    layer = nn.Linear(inner, outer, bias=False, dtype=dtype)
    back = nn.Linear(outer, inner, bias=False, dtype=dtype)
    forward = _fastest(lambda: _linear(x, layer), lambda: layer(x))
    d_input = _fastest(lambda: _linear(gradient, back), lambda: gradient @ layer.weight)
    d_weight = _fastest(lambda: gradient.T @ x, lambda: x.T @ gradient)
    return forward, d_input + d_weight


def _fastest(*ways: Callable[[], object]) -> float:
    """Seconds of the fastest of all calls."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    seconds = math.inf
    for way in ways * _REPEATS:
        start = clock()
        way()
        seconds = min(seconds, clock() - start)
    return seconds
