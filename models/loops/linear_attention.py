"""Looped linear self-attention over the pairs of a prompt: what learns preconditioned gradient
descent (arXiv 2410.08292, section 2; 2306.00297)."""

import torch
from torch import Tensor, nn

from ..blocks.spec import BlockSpec
from ..queries import Layout
from .loop import PLAIN, Loop, LoopState, StepContext


class LinearAttentionLoop(Loop):
    """Z ← Z − P Z M (ZᵀQZ) / n with Z = [x₁ … xₙ x; y₁ … yₙ 0], M without the query, and of the
    papers' P and Q the parts that are free: Q has `attention` [d, d] for the inputs, P the values
    y + u·x of a pair, with u `input_values` [d]. There is no other parameter, norm or position.

    So inputs stay as they are. With u = 0 the labels become the residuals y − w·x of gradient
    descent, w ← w + attentionᵀ Σ (y − w·x) x / n. Each prediction has a Z of its own, since what a
    pair's label becomes depends on the pairs that are seen; n is the number of pairs that the last
    one sees. A token's stream is the last row of its Z: a label for each of the prompt's pairs,
    and, with the opposite sign, the prediction.

    It reads the tokens themselves, which have n_embd = d numbers. In training the last prediction
    alone has a gradient, as in the papers, whose prompts have one query.
    """

    reads_tokens = True

    def __init__(self, spec: BlockSpec) -> None:
        nn.Module.__init__(self)
        self.spec = spec
        self.register_parameter("positions", None)
        self.blocks = nn.ModuleList()
        self.attention = nn.Parameter(torch.empty(spec.n_embd, spec.n_embd, dtype=torch.float32))
        self.input_values = nn.Parameter(torch.empty(spec.n_embd, dtype=torch.float32))

    def initialise(self) -> None:
        """Zero: the model that predicts zero."""
        self.attention.zero_()
        self.input_values.zero_()

    def stacks(self) -> dict[str, BlockSpec]:
        return {}

    def prepare(self, e: Tensor, layout: Layout | None = None) -> Tensor:
        """For each token its numbers [d], the labels of the prompt's n pairs, and each pair's
        weight: 1 over the most pairs seen, or 0 where it is not seen; [B, S, d + 2 n]."""
        e = e.to(torch.promote_types(e.dtype, torch.float32))
        batch, tokens, _ = e.shape
        # A prompt in training comes without its last y: 2n − 1 tokens.
        pairs = (tokens + 1) // 2
        positions = torch.arange(tokens, device=e.device)
        if layout is not None and layout.positions is not None:
            # With queries the read-out begins after the prompt's 2n tokens.
            pairs = layout.read.start // 2
            positions = layout.positions
        seen = positions // 2
        labels = e.new_zeros(batch, pairs)
        known = e[:, 1 : 2 * pairs : 2, 0]  # of a prompt in training all but the last
        labels[:, : known.shape[1]] = known
        # [S, n]: at position p a token has p // 2 whole pairs before it, its own not among them.
        mask = torch.arange(pairs, device=e.device) < seen[:, None]
        weights = mask.to(e.dtype) / seen.max().clamp(min=1)
        shape = (batch, tokens, pairs)
        return torch.cat([e, labels[:, None].expand(shape), weights.expand(shape)], dim=2)

    def start(self, e: Tensor) -> LoopState:
        labels = self._parts(e)[1]
        stream = torch.cat([labels, torch.zeros_like(labels[..., :1])], dim=2)
        return LoopState(stream, stream)

    def step(self, state: LoopState, e: Tensor, t: int, context: StepContext = PLAIN) -> LoopState:
        inputs, labels, weights = self._parts(e)
        keys = inputs[:, : 2 * labels.shape[2] : 2]  # x₁ … xₙ
        rows = context.tokens
        stream = state.stream[:, rows]
        weights = weights[:, rows]
        queries = inputs[:, rows]
        # y + u·x of each pair, in each token's own Z: [B, S, n].
        values = weights * (stream[..., :-1] + (keys @ self.input_values)[:, None])
        transformed = keys @ self.attention
        # A token's row of P Z M (ZᵀQZ): labels at the pairs, and last the prediction.
        change = values @ (transformed @ keys.mT)
        prediction = (values * (queries @ transformed.mT)).sum(-1, keepdim=True)
        stream = stream + torch.cat([-change, prediction], dim=2)
        return LoopState(stream, stream)

    def read(self, streams: Tensor, layout: Layout | None = None) -> Tensor:
        predictions = streams[..., -1:]
        if layout is not None:
            return predictions
        earlier = predictions[..., :-1, :]
        last = predictions[..., -1:, :]
        # The papers' prompts have one query each: losses at earlier ones must not train anything.
        return torch.cat([earlier.detach(), last], dim=-2)

    def _parts(self, e: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The parts that `prepare` has put together: numbers, labels, weights."""
        dims = self.spec.n_embd
        pairs = (e.shape[2] - dims) // 2
        inputs, labels, weights = e.split((dims, pairs, pairs), dim=2)
        return inputs, labels, weights
