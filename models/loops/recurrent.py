"""Loops between a prelude and a coda, normed in the loop or at the read-out alone, with injection
by addition, product or projection, or with lanes of hyper-connections."""

from dataclasses import replace

import torch
from torch import Tensor, nn

from ..blocks.norms import make_norm
from ..blocks.spec import BlockSpec
from ..queries import ALL_TOKENS, Layout, read_at
from .loop import PLAIN, Loop, LoopState, StepContext, make_stack, run_blocks

_FIRST = {"add": torch.zeros_like, "multiply": torch.ones_like}


class RecurrentLoop(Loop):
    """First e: read-in and positions, norm, `prelude` layers. Then s ← norm(body(inject(s, e))) at
    each step. Then `coda` layers and a norm (arXiv 2604.21106).

    `injection` is none (from s = e), add (from 0), multiply (from 1) or concat: a projection of (e,
    s), initialised as the identity on e. With `norm` at_readout neither e nor s is normed, as in
    arXiv 2606.18524, where s ← body(s) with scaled branches; an added e is then scaled like a
    branch. Of sandwich blocks, whose last norm bounds s, it is the loop of arXiv 2502.05171: concat
    begins with s = 0, the mean of the paper's random state, and the last s is normed before a coda.
    """

    def __init__(
        self,
        spec: BlockSpec,
        injection: str = "none",
        norm: str = "at_readout",
        prelude: int = 0,
        coda: int = 0,
    ) -> None:
        super().__init__(spec)
        self.injection = injection
        self.normed = norm == "in_loop"
        self.prelude = _stack(spec, prelude)
        self.coda = _stack(spec, coda)
        self.norm_coda: nn.Module = nn.Identity()
        if self.normed:
            self.norm_in = make_norm(spec.kind, spec.n_embd)
            self.norm_loop = make_norm(spec.kind, spec.n_embd)
        elif spec.kind == "sandwich" and coda:
            self.norm_coda = make_norm(spec.kind, spec.n_embd)
        if injection == "concat":
            self.inject = nn.Linear(2 * spec.n_embd, spec.n_embd, bias=False)

    def initialise(self) -> None:
        """Set the injecting projection to the identity on the prompt."""
        if self.injection == "concat":
            # [D, 2D] = (I, 0), since e stands before s in the concatenation.
            self.inject.weight.copy_(torch.eye(*self.inject.weight.shape))

    def stacks(self) -> dict[str, BlockSpec]:
        # Each stack has its own count: GPT-2's initial std of outputs is std / √(2 n_layer).
        layers_by_name = {"prelude": len(self.prelude), "coda": len(self.coda)}
        return super().stacks() | {
            name: replace(self.spec, n_layer=layers)
            for name, layers in layers_by_name.items()
            if layers
        }

    def prepare(self, e: Tensor, layout: Layout | None = None) -> Tensor:
        e = self._add_positions(e, layout)
        first = self.norm_in(e) if self.normed else e
        # Without the scale: residual scaling is for branches that the loop repeats.
        return run_blocks(self.prelude, first, StepContext(layout=layout))

    def start(self, e: Tensor) -> LoopState:
        # A normed concat starts from e, as without injection; one that is not normed from zero.
        as_injected = self.normed or self.injection != "concat"
        first = _FIRST.get(self.injection, torch.clone)(e) if as_injected else torch.zeros_like(e)
        return LoopState(first, first)

    def step(self, state: LoopState, e: Tensor, t: int, context: StepContext = PLAIN) -> LoopState:
        x = self._body(self._inject(state.stream, e, context.scale), context)
        return LoopState(self.norm_loop(x) if self.normed else x, x)

    def kept_tokens(self, layout: Layout | None) -> slice:
        return ALL_TOKENS if len(self.coda) else read_at(layout)  # a coda attends to all of them

    def read(self, streams: Tensor, layout: Layout | None = None) -> Tensor:
        if len(self.coda):
            context = StepContext(tokens=read_at(layout), layout=layout)
            # Blocks take [B, S, D]: to them the window's loops are prompts too, [window · B, S, D].
            flat = run_blocks(self.coda, self.norm_coda(streams).flatten(0, -3), context)
            streams = flat.unflatten(0, streams.shape[:-2])
        return self.norm(streams)

    def _inject(self, s: Tensor, e: Tensor, scale: float) -> Tensor:
        if self.injection == "none":
            return s
        if self.injection == "add":
            return s + e if self.normed else torch.add(s, e, alpha=scale)
        if self.injection == "multiply":
            return s * e
        return self.inject(torch.cat((e, s), dim=-1)).to(s.dtype)


class LanesLoop(RecurrentLoop):
    """Hyper-connections (arXiv 2604.21106): K lanes that start as e; step t reads a sum of them by
    weights α_t, and each becomes a mixture M_t of all plus β_t times the step's normed output. The
    read-out reads their sum. Each step has its own weights, for up to `loops` steps."""

    def __init__(
        self, spec: BlockSpec, lanes: int, loops: int, prelude: int = 0, coda: int = 0
    ) -> None:
        super().__init__(spec, "none", "in_loop", prelude, coda)
        self.most_loops = loops
        self.lane_read = nn.Parameter(torch.empty(loops, lanes, dtype=torch.float32))
        self.lane_mix = nn.Parameter(torch.empty(loops, lanes, lanes, dtype=torch.float32))
        self.lane_write = nn.Parameter(torch.empty(loops, lanes, dtype=torch.float32))

    def start(self, e: Tensor) -> LoopState:
        # [K, B, S, D] as a view: all lanes are e itself until the first step writes new ones.
        lanes = e.expand(self.lane_read.shape[1], *e.shape)
        return LoopState(lanes.sum(0), e, lanes)

    def step(self, state: LoopState, e: Tensor, t: int, context: StepContext = PLAIN) -> LoopState:
        assert state.carry is not None
        lanes = state.carry
        # α_t [K] sums lanes to one stream [B, S, D]; below, M_t [K, K] makes K new lanes of K.
        x = self._body(_mixed(self.lane_read[t], lanes), context)
        lanes = _mixed(self.lane_mix[t], lanes[:, :, context.tokens])
        lanes = lanes + self.lane_write[t][:, None, None, None] * self.norm_loop(x)
        return LoopState(lanes.sum(0), x, lanes)

    def initialise(self) -> None:
        """Step t reads lane t mod K; M_t is the identity, β_t is 1 for all lanes."""
        loops, lanes = self.lane_read.shape
        eye = torch.eye(lanes, device=self.lane_read.device, dtype=torch.float32)
        self.lane_read.copy_(eye[torch.arange(loops, device=eye.device) % lanes])
        self.lane_mix.copy_(eye.expand(loops, lanes, lanes))
        self.lane_write.fill_(1.0)


def _mixed(weights: Tensor, lanes: Tensor) -> Tensor:
    """Weighted sums of lanes [K, B, S, n_embd] by weights [..., K], without autocast."""
    with torch.autocast(lanes.device.type, enabled=False):
        # [..., K] @ [K, B · S · D]. Autocast would round the lanes that carry the state over loops.
        sums = weights.to(lanes.dtype) @ lanes.flatten(1)
        return sums.unflatten(-1, lanes.shape[1:])


def _stack(spec: BlockSpec, layers: int) -> nn.ModuleList:
    return make_stack(replace(spec, n_layer=layers)) if layers else nn.ModuleList()
