"""The floating-point operations of a model's passes.

costs = pass_costs(model, tokens=256)
costs.of_step(loops=8, grad_loops=4, window=2)   # forward and backward, of one sequence
"""

from typing import NamedTuple

from .model import Model


class PassCosts(NamedTuple):
    """FLOPs of a forward pass of one sequence: `start`, of what comes before the loops; `loop`, of
    each loop (of each layer of a standard model); `read_out`, of the layers after the loops and the
    head, for each loop that is read."""

    start: float
    loop: float
    read_out: float

    def forward(self, loops: int) -> float:
        """FLOPs of a prediction, which reads the last loop."""
        return self.start + loops * self.loop + self.read_out

    def of_step(self, loops: int, grad_loops: int, window: int) -> float:
        """FLOPs of a training step whose loss is that of the last `window` loops: a backward pass
        costs twice the forward pass, and goes through the last `grad_loops` loops and all that is
        outside the loops."""
        # Forward 1 and backward 2: loops × 1 + grad_loops × 2, and 3 for what is in every pass.
        outside = self.start + window * self.read_out
        return (loops + 2 * grad_loops) * self.loop + 3 * outside


def pass_costs(model: Model, tokens: int, context: int | None = None) -> PassCosts:
    """Matrix products and attention of sequences of so many tokens: two FLOPs for each weight and
    token, and 4 tokens · n_embd for each token and layer (arXiv 2604.21106); with `context`, that
    many tokens are attended to in place of the sequence's own, as by one token after a cache. A
    window of attention, norms and activations are not counted, nor is a text's embedding, which
    multiplies nothing."""
    spec = model.spec
    weights = dict(model.named_parameters())
    # A standard model's loop is one layer, with one n-th of the stack's weights and one attention.
    layers = spec.n_layer if spec.family == "standard" else 1
    blocks = 1 if spec.family == "standard" else spec.n_layer
    start = loop = read_out = 0.0
    for name, role in model.parameter_roles().items():
        size = weights[name].numel()
        if role.kind == "injection":
            loop += size
        elif role.kind == "matrix" and name.startswith("loop.prelude."):
            start += size
        elif role.kind == "matrix" and name.startswith("loop.coda."):
            read_out += size
        elif role.kind == "matrix":
            loop += size / layers
        # Embeddings are looked up, not multiplied; biases, norms, positions and lanes are left out.
        elif name == "read_in.weight" and not spec.vocabulary:
            start += size
        elif name == "read_out.weight":
            read_out += size
    # The tied head has no parameter of its own among the roles, but its product is made.
    if spec.tied_head:
        read_out += spec.rows * spec.n_embd
    # Scores, and the values that they weigh: two FLOPs for each, pair of tokens and number.
    attention = 4 * tokens * (context or tokens) * spec.n_embd
    start_flops = 2 * tokens * start + spec.prelude * attention
    loop_flops = 2 * tokens * loop + blocks * attention
    read_out_flops = 2 * tokens * read_out + spec.coda * attention
    return PassCosts(start_flops, loop_flops, read_out_flops)
