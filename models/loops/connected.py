"""The loops of the Fully Looped Transformer (arXiv 2605.18797), by its names: how each loop reads
the output of the one before it."""

from torch import Tensor

from ..blocks.norms import make_norm
from ..blocks.spec import BlockSpec
from ..queries import ALL_TOKENS, Layout
from .loop import PLAIN, Loop, LoopState, StepContext, run_blocks


class ConnectedLoop(Loop):
    """With h the normed output of the loop before and x₀ the read-in with its positions, a loop's
    layers start from

    - LT: h, and the first loop from norm(x₀);
    - LT_i: norm(x₀ + h), and the first loop from norm(x₀);
    - LT_ai: norm(x₀); the first layer takes its queries from h;
    - FLT: norm(x₀); every layer takes its queries from h;
    - FLT_res: norm(x₀); every layer starts by x ← norm(x + h).

    The first loop of each is the plain transformer.
    """

    def __init__(self, spec: BlockSpec, connectivity: str) -> None:
        super().__init__(spec)
        self.connectivity = connectivity
        self.norm_in = make_norm(spec.kind, spec.n_embd)

    def prepare(self, e: Tensor, layout: Layout | None = None) -> Tensor:
        e = self._add_positions(e, layout)
        return e if self.connectivity == "LT_i" else self.norm_in(e)

    def start(self, e: Tensor) -> LoopState:
        first = self.norm_in(e) if self.connectivity == "LT_i" else e
        return LoopState(first, first)

    def step(self, state: LoopState, e: Tensor, t: int, context: StepContext = PLAIN) -> LoopState:
        h = state.stream
        connectivity = self.connectivity
        # Before the first step h is norm(x₀) in all five (see `start`), so that they agree there.
        if t == 0 or connectivity == "LT":
            x = self._body(h, context)
        elif connectivity == "LT_i":
            x = self._body(self.norm_in(e + h), context)
        elif connectivity == "FLT":
            x = self._body(e, context, memory=h)
        else:
            x = self._by_layer(e, h, context)
        return LoopState(self.norm(x), x)

    def _by_layer(self, x: Tensor, h: Tensor, context: StepContext) -> Tensor:
        """The layers of LT_ai and FLT_res, one by one."""
        last = len(self.blocks) - 1
        for layer, block in enumerate(self.blocks):
            memory = None
            if self.connectivity == "FLT_res":
                x = self.norm_in(x + h)
            elif layer == 0:
                memory = h
            # The next layer attends to all tokens, so that only the last one may leave any out.
            layer_context = context if layer == last else context._replace(tokens=ALL_TOKENS)
            x = run_blocks([block], x, layer_context, memory)
        return x
