"""Many steps of a loop on Triton kernels: four launches a layer forward, five backward.

Without gradients only the stream is stored. With them a layer saves its input, q, k and v, the
mixed heads and the stream after attention; the backward pass recomputes what else it needs.
"""

from functools import cache
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

from .. import segment as eager
from ..blocks.gpt2 import Block
from ..loops.loop import PLAIN, LayerLoop, Loop, LoopState, SharedLoop, StepContext
from ..loops.recurrent import RecurrentLoop
from ..queries import Layout
from ..segment import Span
from .attention import Attention, attend
from .common import INTERPRETED, Compute
from .gather import Operation, Uses, gather
from .mlp import Mlp, MlpOperation
from .norm import Norm, NormOperation
from .projection import Projection, ProjectionOperation
from .qkv import Qkv, QkvOperation
from .variants import Variants

_MOST_WIDTH, _MOST_HEAD, _MOST_TOKENS = 512, 64, 1024
_FUSED = Variants()
# How segments without gradients computed, with the weights that they cast, by their last stream:
# the next segment of the same step begins with it.
_COMPUTES = WeakIdKeyDictionary()
_MOST_EXACT_WIDTH = 256  # without tensor cores: above it, rows exceed an A100's shared memory


class _Layer(NamedTuple):
    """One layer's operations, and the number of its attention heads."""

    qkv: QkvOperation
    projection: ProjectionOperation
    mlp: MlpOperation
    heads: int

    def run(
        self, token: Tensor | None, use: int, source: Tensor, normed: bool, keep: bool
    ) -> tuple[Tensor, list[Tensor]]:
        """The stream after the layer, and with `keep` the normed stream before it, at the x
        positions. Without a token nothing is saved for a backward pass."""
        if token is None:
            x, qkv, *inputs = self.qkv.forward(source, normed, keep)
            mixed = qkv.new_empty(x.shape)
            attend(qkv, self.heads, self.qkv.compute, mixed)
            return self.mlp.forward(self.projection.forward(x, mixed)), inputs
        x, qkv, *inputs = Qkv.apply(token, self.qkv, use, source, normed, keep)
        mixed = self.projection.slot_for_mixed(use, x)
        mixed = Attention.apply(qkv, self.heads, self.qkv, use, mixed)
        x = Projection.apply(token, self.projection, use, x, mixed)
        return Mlp.apply(token, self.mlp, use, x), inputs


def run_segment(
    loop: Loop,
    state: LoopState,
    e: Tensor,
    span: Span,
    context: StepContext = PLAIN,
    variants: Variants = _FUSED,
) -> tuple[LoopState, Tensor]:
    """Does what `models.segment.run_segment` does, by these variants. It falls back to that, with a
    printed line, where there is no kernel."""
    compute, before = _compute(e.device, variants), _COMPUTES.get(state.stream)
    if before == compute:
        compute = before
    reason = why_not(loop, e, compute, context.layout)
    if reason:
        _say(reason)
    if reason or not span.count:
        return eager.run_segment(loop, state, e, span, context)
    # Triton launches on the current device, which can differ from the tensors'.
    with torch.cuda.device_of(e), torch.set_grad_enabled(span.grad and torch.is_grad_enabled()):
        e, stream = e.float(), state.stream.float().contiguous()
        if isinstance(loop, SharedLoop):
            done = run_shared(loop, stream, e, compute, span, context.scale)
        else:
            done = _run_layers(loop, stream, compute, span, context.scale)
    if not span.keep:
        _COMPUTES[done[0].stream] = compute
    return done


def run_shared(
    loop: SharedLoop, stream: Tensor, e: Tensor, compute: Compute, span: Span, scale: float
) -> tuple[LoopState, Tensor]:
    """The steps of a SharedLoop. The loop's norm is computed at the start of the next step, which
    also returns the normed stream where it is kept; after the last step, by its own kernel."""
    count, keep = span.count, span.keep
    blocks, norm = _blocks(loop), cast(nn.LayerNorm, loop.norm)
    uses = Uses.of(count, stream.shape[0] * stream.shape[1], stream.shape[2], compute)
    # The loop's injection and norm are in the first of the layers' operations.
    first = QkvOperation(
        blocks[0],
        compute,
        uses,
        injection=loop.injection,
        e=None if loop.injection == "none" else e,
        positions=None if loop.injection == "add" else _positions(loop)[: e.shape[1]],
        norm_f=norm,
    )
    layers = [
        _layer(block, compute, uses, scale, None if index else first)
        for index, block in enumerate(blocks)
    ]
    last = NormOperation(norm, compute)
    token = _token([*layers], last)
    streams: list[Tensor] = []
    for step in range(count):
        for index, layer in enumerate(layers):
            normed = index == 0 and step > 0
            keep_input = normed and step > count - keep
            stream, inputs = layer.run(token, step, stream, normed, keep_input)
            streams += inputs
    y = last.forward(stream) if token is None else Norm.apply(token, last, stream)
    if keep:
        streams.append(y[:, ::2])
        return LoopState(streams[-1], stream[:, ::2]), torch.stack(streams)
    return LoopState(y, stream), e.new_empty(0, *e[:, ::2].shape)


def _run_layers(
    loop: Loop, stream: Tensor, compute: Compute, span: Span, scale: float
) -> tuple[LoopState, Tensor]:
    """Steps without a norm between them: each is one layer, or all layers of the loop."""
    first, count, keep = span.first, span.count, span.keep
    if isinstance(loop, LayerLoop):
        uses = Uses(1, 1)
        layers = [_layer(b, compute, uses, scale) for b in _blocks(loop)[first : first + count]]
        steps = [(0, [layer]) for layer in layers]
    else:
        uses = Uses.of(count, stream.shape[0] * stream.shape[1], stream.shape[2], compute)
        layers = [_layer(block, compute, uses, scale) for block in _blocks(loop)]
        steps = [(step, layers) for step in range(count)]
    token = _token(layers)
    streams: list[Tensor] = []
    for step, (use, body) in enumerate(steps):
        for layer in body:
            stream, _ = layer.run(token, use, stream, False, False)
        if step >= count - keep:
            streams.append(stream[:, ::2])
    if keep:
        return LoopState(streams[-1], streams[-1]), torch.stack(streams)
    return LoopState(stream, stream), stream.new_empty(0, *stream[:, ::2].shape)


def _layer(
    block: Block, compute: Compute, uses: Uses, scale: float, first: QkvOperation | None = None
) -> _Layer:
    """A block's operations; `first` is the first of them where the prompt is injected there."""
    return _Layer(
        first or QkvOperation(block, compute, uses),
        ProjectionOperation(block, compute, uses, scale),
        MlpOperation(block, compute, uses, scale),
        block.n_head,
    )


def _blocks(loop: Loop) -> list[Block]:
    return cast("list[Block]", list(loop.blocks))


def _token(layers: list[_Layer], *operations: Operation) -> Tensor | None:
    """The token of all uses; None without gradients."""
    if not torch.is_grad_enabled():
        return None
    return gather([*(part for layer in layers for part in layer[:3]), *operations])


def why_not(loop: Loop, e: Tensor, compute: Compute, layout: Layout | None) -> str | None:
    """The reason why the kernels do not support this case, or None."""
    if layout is not None:
        return "no kernels for queries beside a prompt"
    width, block = e.shape[-1], loop.blocks[0]
    is_supported = type(loop) in (SharedLoop, LayerLoop) or _is_unnormed(loop)
    if not is_supported or type(block) is not Block:
        return f"no kernels for a {type(loop).__name__} of {type(block).__name__}"
    if not (e.is_cuda or INTERPRETED.value):
        return f"no kernels on {e.device.type}"
    if e.dtype not in (torch.float32, torch.bfloat16) or _positions(loop).dtype != torch.float32:
        return f"no kernels for streams of {e.dtype} and weights of {_positions(loop).dtype}"
    if width % 32 or width > _MOST_WIDTH:
        return f"kernels need n_embd to be a multiple of 32 up to {_MOST_WIDTH}, got {width}"
    if compute.precision == "ieee" and width > _MOST_EXACT_WIDTH:
        return f"kernels in fp32 need n_embd to be at most {_MOST_EXACT_WIDTH}, got {width}"
    if width // block.n_head > _MOST_HEAD:
        return f"kernels need heads of at most {_MOST_HEAD}, got {width // block.n_head}"
    if e.shape[1] > _MOST_TOKENS:
        return f"kernels need at most {_MOST_TOKENS} tokens, got {e.shape[1]}"
    if compute.dtype not in (torch.float32, torch.bfloat16):
        return f"no kernels for products in {compute.dtype}"
    return None


def _is_unnormed(loop: Loop) -> bool:
    """Says whether a step is the layers alone, without injection and without norm."""
    plain = type(loop) is RecurrentLoop and loop.injection == "none" and not loop.normed
    return plain and not (loop.prelude or loop.coda)


def _positions(loop: Loop) -> Tensor:
    assert loop.positions is not None  # blocks with kernels are not rotary
    return loop.positions


@cache
def _say(reason: str) -> None:
    print(f"backend triton: {reason}; eager takes its place", flush=True)


def _compute(device: torch.device, variants: Variants) -> Compute:
    """The arithmetic by which `eager` would multiply here: autocast's dtype, and whether TF32 is
    allowed."""
    if torch.is_autocast_enabled(device.type):
        return Compute(torch.get_autocast_dtype(device.type), variants=variants)
    return Compute(torch.float32, torch.backends.cuda.matmul.allow_tf32, variants)
