"""Every way to loop in NumPy's float64, over the plain blocks: prompt by prompt, loop by loop; of
`models` only the weights and the names in a shape are used."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from reloop.models import Model, ModelSpec
from tests.models.plain_blocks import Array, plain_block, plain_norm
from tests.models.small import Batch


class Plain:
    """A model's parts: read-in, stacks of blocks, norms and read-out."""

    def __init__(self, model: Model) -> None:
        self.spec, self.model = model.spec, model
        self.p = {name: weight.detach().numpy() for name, weight in model.named_parameters()}

    def read_in(self, xs: Array, ys: Array) -> Array:
        """x₁, (y₁, 0, …), x₂, … read in, at their learned positions where there are any."""
        rows = []
        for x, y in zip(xs, ys, strict=True):
            for token in (x, np.array([y] + [0.0] * (len(x) - 1))):
                rows.append(self.p["read_in.weight"] @ token + self.p["read_in.bias"])
        if "loop.positions" in self.p:
            rows = [row + self.p["loop.positions"][i] for i, row in enumerate(rows)]
        return np.stack(rows)

    def norm(self, x: Array, name: str = "norm") -> Array:
        """All tokens after a norm of the loop."""
        return np.stack([plain_norm(self.spec.block, row, self.p, f"loop.{name}") for row in x])

    def layer(
        self, index: int, x: Array, scale: float = 1.0, asked: Array | None = None, *,
        stack: str = "blocks",
    ) -> Array:  # fmt: skip
        """One layer of a stack; all but the last may have a window of a quarter of the length."""
        spec, window = self.spec, None
        blocks = list(self.model.loop.get_submodule(stack).children())
        if spec.attention == "sliding" and index < len(blocks) - 1:
            letter = spec.pattern[index % len(spec.pattern)]
            window = (2 * spec.n_positions + 1) // 4 if letter == "S" else None
        block: nn.Module = blocks[index]
        shape = spec.block_spec()
        return plain_block(shape, block, x, window=window, memory=asked, scale=scale)

    def body(self, x: Array, scale: float = 1.0, *, stack: str = "blocks", n: int = 0) -> Array:
        """The layers of a stack one after another."""
        for index in range(n or self.spec.n_layer):
            x = self.layer(index, x, scale, stack=stack)
        return x

    def outside(self, x: Array, stack: str, layers: int) -> Array:
        """A prelude's or a coda's layers, which nothing scales."""
        return self.body(x, stack=stack, n=layers) if layers else x


def plain_predictions(model: Model, prompts: Batch, loops: int) -> Array:
    """Predictions of a float64 model after each loop, [loops, B, n]."""
    plain, spec = Plain(model), model.spec
    with torch.no_grad():
        return np.stack(
            [
                [
                    plain.p["read_out.weight"] @ row[::2].T + plain.p["read_out.bias"]
                    for row in _way(spec)(plain, plain.read_in(xs, ys), loops, _scale(spec))
                ]
                for xs, ys in zip(prompts.xs.numpy(), prompts.ys.numpy(), strict=True)
            ],
            axis=1,
        )[:, :, 0]


def _scale(spec: ModelSpec) -> float:
    """ε of each residual branch, R loops of U layers; of n layers that are made once, n stands for
    R, and where U is asked for it is n itself and R is 1."""
    standard = spec.family == "standard"
    R, U = spec.n_layer if standard else spec.loops, spec.n_layer
    return {
        "none": 1.0,
        "sqrt": R**-0.5,
        "linear": R**-1.0,
        "factored": spec.residual_factor / (1 if standard else R) * U**-0.5,
    }[spec.residual_scaling]


def _way(spec: ModelSpec) -> Callable[[Plain, Array, int, float], list[Array]]:
    if spec.family == "standard":
        return standard
    if spec.connectivity:
        return connected
    if spec.lanes:
        return lanes
    plain = not spec.prelude and not spec.coda
    repeated = spec.injection != "concat" and spec.norm == "in_loop"
    return shared if plain and repeated else recurrent


def standard(plain: Plain, x: Array, loops: int, scale: float) -> list[Array]:
    """Layer after layer; the fully looped paper norms what goes in, too."""
    read = []
    x = plain.norm(x) if plain.spec.block == "flt" else x
    for t in range(loops):
        x = plain.layer(t, x, scale)
        read.append(plain.norm(x))
    return read


def shared(plain: Plain, x: Array, loops: int, scale: float) -> list[Array]:
    """y ← norm(body(y · e)), of blocks that have no positions to add."""
    assert (plain.spec.injection, "loop.positions" in plain.p) == ("multiply", False)
    y, read = np.ones_like(x), []
    for _ in range(loops):
        y = plain.norm(plain.body(y * x, scale))
        read.append(y)
    return read


def connected(plain: Plain, x0: Array, loops: int, scale: float) -> list[Array]:
    """The variants of arXiv 2605.18797, after its published code."""
    name, layers, read = plain.spec.connectivity, plain.spec.n_layer, list[Array]()
    for t in range(loops):
        h = read[-1] if t else None
        x = plain.norm(x0, "norm_in")
        if h is not None and name == "LT":
            x = h
        if h is not None and name == "LT_i":
            x = plain.norm(x0 + h, "norm_in")
        for layer in range(layers):
            asked = h if name == "FLT" or (name == "LT_ai" and layer == 0) else None
            if h is not None and name == "FLT_res":
                x = plain.norm(x + h, "norm_in")
            x = plain.layer(layer, x, scale, asked)
        read.append(plain.norm(x))
    return read


def recurrent(plain: Plain, x: Array, loops: int, scale: float) -> list[Array]:
    """The injections of arXiv 2604.21106, or the stream of arXiv 2606.18524 that runs on."""
    spec, read = plain.spec, []
    normed = spec.norm == "in_loop"
    e = plain.outside(plain.norm(x, "norm_in") if normed else x, "prelude", spec.prelude)
    s = {"none": e, "concat": e, "add": 0 * e, "multiply": 0 * e + 1}[spec.injection]
    for _ in range(loops):
        if spec.injection == "add":
            s = s + e if normed else s + e / spec.loops
        elif spec.injection == "multiply":
            s = s * e
        elif spec.injection == "concat":
            weight = plain.p["loop.inject.weight"]
            s = np.stack([weight @ np.concatenate(pair) for pair in zip(e, s, strict=True)])
        s = plain.body(s, scale)
        s = plain.norm(s, "norm_loop") if normed else s
        read.append(plain.norm(plain.outside(s, "coda", spec.coda)))
    return read


def lanes(plain: Plain, x: Array, loops: int, scale: float) -> list[Array]:
    """Hyper-connections of arXiv 2604.21106, lane by lane."""
    spec, p, read = plain.spec, plain.p, []
    e = plain.outside(plain.norm(x, "norm_in"), "prelude", spec.prelude)
    lane = [e] * spec.lanes
    for t in range(loops):
        u = sum((p["loop.lane_read"][t, i] * lane[i] for i in range(spec.lanes)), 0 * e)
        s = plain.norm(plain.body(u, scale), "norm_loop")
        mix, write = p["loop.lane_mix"][t], p["loop.lane_write"][t]
        lane = [
            sum((mix[i, j] * lane[j] for j in range(spec.lanes)), write[i] * s)
            for i in range(spec.lanes)
        ]
        read.append(plain.norm(plain.outside(sum(lane, 0 * e), "coda", spec.coda)))
    return read
