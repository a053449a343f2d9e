"""The floating-point operations of a model's passes.

costs = pass_costs(model, tokens=256)
costs.of_step(loops=8, grad_loops=4)          # forward and backward, of one sequence
"""

from __future__ import annotations

from typing import NamedTuple

from .model import Model

_OUTSIDE = ("loop.prelude.", "loop.coda.")


class PassCosts(NamedTuple):
    """FLOPs of a forward pass of one sequence: `loop`, of each loop (of each layer of a standard
    model); and `outside`, of what is made once."""

    loop: float
    outside: float

    def forward(self, loops: int) -> float:
        """Of a prediction."""
        return loops * self.loop + self.outside

    def of_step(self, loops: int, grad_loops: int) -> float:
        """Of a training step: a backward pass costs twice the forward pass, and goes through the
        last `grad_loops` loops and all that is outside."""
        return (loops + 2 * grad_loops) * self.loop + 3 * self.outside


def pass_costs(model: Model, tokens: int) -> PassCosts:
    """Matrix products and attention of sequences of so many tokens: two FLOPs for each weight and
    token, and 4 tokens · n_embd for each token and layer (arXiv 2604.21106). A window of attention,
    norms and activations are not counted, nor is a text's embedding, which multiplies nothing."""
    spec, weights = model.spec, dict(model.named_parameters())
    layers = spec.n_layer if spec.family == "standard" else 1
    blocks = 1 if spec.family == "standard" else spec.n_layer
    loop = outside = 0.0
    for name, role in model.parameter_roles().items():
        size = weights[name].numel()
        if role.kind == "injection":
            loop += size
        elif role.kind == "matrix" and name.startswith(_OUTSIDE):
            outside += size
        elif role.kind == "matrix":
            loop += size / layers
        elif name == "read_out.weight" or (name == "read_in.weight" and not spec.vocabulary):
            outside += size
    if spec.tied_head:
        outside += spec.rows * spec.n_embd
    attention = 4 * tokens**2 * spec.n_embd
    return PassCosts(
        2 * tokens * loop + blocks * attention,
        2 * tokens * outside + (spec.prelude + spec.coda) * attention,
    )
