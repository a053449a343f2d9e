"""The cost of a training step: FLOPs, bytes moved under a given fusion, and the floor on a card.

    work = work_of(at_full_size(named_config("sparse")))
    work.flops / H100.rates["bf16"]                  # seconds of the arithmetic alone

A model, not a measurement. It counts the blocks' matrix products and attention, at all tokens of
every loop (our eager loop skips the y tokens after the last attention), but not read-in and
read-out (under 0.1 % at the paper's sizes), norms and GELU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from looplab.conf.schema import Config
from looplab.training.assemble import build_curriculum, build_task

# Elements that a block reads or writes per token and unit of width: those of the residual stream
# and its gradient, and those in two bytes. Forward there are four kernels: inject, norm and qkv
# (3, 3); attention (0, 4); project and add (2, 1); norm, MLP, add and final norm (2, 0). Backward,
# where norms, scores and the MLP's hidden layer are computed again: MLP (3, 10) and its weights
# (0, 10); projection (1, 1) and its weights (1, 1); attention (0, 8); qkv (5, 4) and its weights
# (0, 4). Weights are assumed to be in the cache.
_FORWARD, _BACKWARD = (7, 8), (10, 38)
_ADAM_BYTES = 28  # per parameter: weight, both moments read and written, gradient read, in fp32


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
        of_stream = _FORWARD[0] * self.forwards + _BACKWARD[0] * self.backwards
        of_rest = _FORWARD[1] * self.forwards + _BACKWARD[1] * self.backwards
        elements = of_stream * residual_bytes + 2 * of_rest
        return _ADAM_BYTES * self.parameters + self.tokens * self.width * elements


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
