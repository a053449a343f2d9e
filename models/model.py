"""The model: read a prompt in, loop, read predictions out.

model = Model(ModelSpec(dims=20, n_embd=256, n_head=8, injection="add"))
predictions = model(prompts, loops=30, window=30)            # [30, B, n]
"""

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import cast

import torch
from torch import Generator, Tensor, nn

from .blocks.parameters import Role, block_roles, initialise_block
from .loops.loop import Loop, LoopState, StepContext
from .loops.make import make_loop
from .operations import Cache, Operations, using
from .previous_token import set_previous_token_head
from .queries import Layout, Queries
from .readers import PromptBatch, make_reader
from .segment import Segment, Span, make_steps, run_segment
from .spec import ModelSpec

_POSITION_STD = 0.02  # as nanoGPT has it


class Model(nn.Module):
    """A transformer on the pairs of a prompt, two tokens each, whose prediction i is read at x_i;
    or on the tokens of a text, where logits of the next token are read at each (readers.py).

    Parameters
    ----------
    spec : ModelSpec
        Its shape.
    generator : torch.Generator, optional
        Weights are sampled from it, on the CPU; seed 0 where none is given.
    empty : bool
        Whether there are no weights, but shapes alone.

    References
    ----------
    arXiv 2311.12424, section 4 (looped); arXiv 2208.01066 (standard).

    Examples
    --------
    >>> from looplab import Model
    >>> from looplab.models import ModelSpec
    >>> Model(ModelSpec(dims=3, n_embd=16, n_head=2)).backbone_parameters()
    3312
    """

    def __init__(
        self, spec: ModelSpec, generator: torch.Generator | None = None, empty: bool = False
    ) -> None:
        super().__init__()
        self.spec = spec
        # Of matrix products; None: that of the weights.
        self.compute_dtype: torch.dtype | None = None
        # Of those in the loops of `forward` without gradients; None: the same.
        self.prefix_dtype: torch.dtype | None = None
        self.run_segment: Segment = run_segment  # or a faster one, see backends.py
        self.operations = Operations()
        # On meta PyTorch's own initial weights cost nothing, and leave its global generator alone.
        with torch.device("meta"):
            loop = make_loop(spec)
            self.reader = make_reader(spec)
            # A loop that reads tokens itself has neither: the identity has no weights.
            read_in = nn.Identity() if loop.reads_tokens else self.reader.read_in()
            read_out = nn.Identity() if loop.reads_tokens else self.reader.read_out(read_in)
            # Linear layers but for such a loop, and for a text.
            self.read_in = cast(nn.Linear, read_in)
            self.loop = loop
            self.read_out = cast(nn.Linear, read_out)
        if empty:
            return
        # Float32 also where a caller has set another default dtype.
        self.float().to_empty(device="cpu")
        generator = generator or torch.Generator().manual_seed(0)
        with torch.device("cpu"):  # also where a caller makes models on the meta device
            initialise(self.loop, self.read_in, self.read_out, generator, spec)
            if spec.previous_token_head:
                set_previous_token_head(self.loop, self.read_in)

    def forward(
        self,
        prompts: PromptBatch,
        loops: int,
        window: int = 1,
        *,
        grad_loops: int | None = None,
        scale_loops: int | None = None,
        queries: Queries | None = None,
        stop_at: float = 0.0,
    ) -> Tensor:
        """Predict the outputs of prompts: `model(prompts, loops)` (arXiv 2311.12424, section 4).

        Parameters
        ----------
        prompts : Prompts
            xs [B, n, d] and ys [B, n], or tokens of a text.
        loops : int
            How many are made, also more than in training; of a standard model its layers.
        window : int
            The predictions of how many of the last loops are returned.
        grad_loops : int, optional
            Gradients reach back through so many of the last loops (the window, where not given);
            the loops before them save no activations.
        scale_loops : int, optional
            The R of residual scaling; the loops of training, where not given.
        queries : Queries, optional
            Queries [B, m, d] to be answered in place of the prompts' own.
        stop_at : float
            The loops without gradients end once the median prompt's state has changed over a loop
            by at most this fraction of its norm; 0: never.

        Returns
        -------
        Tensor
            [window, B, n], newest loop last, or [window, B, m] with queries; one more axis of
            logits for a classifier and for a text.

        Raises
        ------
        ValueError
            For counts that do not fit together, and queries that do not fit the prompts.

        Examples
        --------
        >>> from looplab import Prompts, load_run
        >>> import torch
        >>> run = load_run("shipped/linear")
        >>> run.model(Prompts(torch.ones(4, 11, 10), torch.ones(4, 11)), loops=5, window=2).shape
        torch.Size([2, 4, 11])
        """
        grad_loops = window if grad_loops is None else grad_loops
        self._check(prompts, loops, window, grad_loops)
        layout = self.reader.layout(prompts, queries)
        context = StepContext(self.residual_scale(scale_loops), layout=layout)
        # The loops in front of `grad_loops` are a segment of their own, which keeps no activations.
        prefix = loops - grad_loops
        tokens = self.reader.tokens(prompts, queries)
        if layout is None:
            # No token follows the last y, and no prediction is read there: leave it out.
            tokens = tokens[:, :-1]
        with self.backend_context(prompts.xs.device):
            e = self.loop.prepare(self.read_in(tokens), layout)
            with _products_in(self.prefix_dtype, e.device):
                state = self._without_gradients(e, prefix, context, stop_at)
            # Steps are counted from the first loop on: layers and lanes have weights by t.
            last = Span(prefix, grad_loops, keep=window, grad=True)
            _, streams = self.run_segment(self.loop, state, e, last, context)
            return self._predict(streams, layout)

    @torch.no_grad()
    def unroll(
        self,
        prompts: PromptBatch,
        loops: int,
        queries: Queries | None = None,
        *,
        scale_loops: int | None = None,
    ) -> Iterator[tuple[LoopState, Tensor]]:
        """Give the state and the predictions loop by loop, or layer by layer, without gradients.

        Parameters
        ----------
        prompts, loops, queries, scale_loops
            As of `forward`, and the same errors.

        Yields
        ------
        state : LoopState
            At index 0 the read-in, then after each loop; earlier ones are not stored. Its tokens
            are the prompt's 2n and, with queries, the m queries.
        predictions : Tensor
            [B, n], or with queries [B, m].

        Examples
        --------
        >>> from looplab import Prompts, load_run
        >>> import torch
        >>> prompts = Prompts(torch.ones(4, 11, 10), torch.ones(4, 11))
        >>> *_, (state, predictions) = load_run("shipped/linear").model.unroll(prompts, loops=5)
        >>> state.stream.shape, predictions.shape
        (torch.Size([4, 22, 64]), torch.Size([4, 11]))
        """
        self._check(prompts, loops, 1, 1)
        device = prompts.xs.device
        layout = self.reader.layout(prompts, queries)
        read_tokens = self.loop.kept_tokens(layout)
        context = StepContext(self.residual_scale(scale_loops), layout=layout)
        with self.backend_context(device):
            read_in = self.read_in(self.reader.tokens(prompts, queries))
            # Autocast may have rounded the read-in; the read-out takes at least float32.
            stream = read_in.to(torch.promote_types(read_in.dtype, torch.float32))
            prediction = self._predict(stream[:, read_tokens], layout)
            e = self.loop.prepare(read_in, layout)
            state = self.loop.start(e)
        # Index 0 is the read-in itself, whatever the loop starts from.
        yield LoopState(read_in, read_in), prediction
        for t in range(loops):
            with self.backend_context(device):
                state, _ = self.run_segment(self.loop, state, e, Span(t, 1), context)
                prediction = self._predict(state.stream[:, read_tokens], layout)
            yield state, prediction

    @torch.no_grad()
    def continue_text(self, tokens: Tensor, loops: int, cache: Cache) -> Tensor:
        """Logits [B, S, vocabulary] of the tokens after `tokens` [B, S], which come after those
        that `cache` has; it then has them too. As many `loops` as for the tokens before. Raises
        ValueError for more tokens than the model has positions, and for a model of pairs."""
        if not self.spec.vocabulary:
            raise ValueError("a model of pairs does not continue a text")
        length = cache.length + tokens.shape[1]
        if length > self.spec.n_positions:
            raise ValueError(
                f"{length} tokens, but the model has {self.spec.n_positions} positions"
            )
        layout = cache.layout(tokens.shape[1], tokens.device)
        context = StepContext(self.residual_scale(), layout=layout)
        operations = cache.operations(self.operations)
        with using(operations), _products_in(self.compute_dtype, tokens.device):
            e = self.loop.prepare(self.read_in(tokens), layout)
            # The attentions of a prelude have made the entries before this one, once for all loops.
            first = operations.next

            def step_in_place(s: LoopState, e: Tensor, t: int, context: StepContext) -> LoopState:
                operations.next = first
                return self.loop.step(s, e, t, context)

            # A standard model's step t is layer t: its keys are not newer ones of step t − 1.
            shares = cache.shared and self.spec.family != "standard"
            step = step_in_place if shares else self.loop.step
            # In plain PyTorch: other backends have kernels for whole prompts alone.
            _, streams = make_steps(
                self.loop, self.loop.start(e), e, Span(0, loops, keep=1), context, step
            )
            logits = self._predict(streams, layout)[0]
        cache.length = length
        return logits

    def residual_scale(self, loops: int | None = None) -> float:
        """The factor of each residual branch of the loop for R = `loops` (where not given, the
        loops of its training; for a standard model, its layers)."""
        spec = self.spec
        R = spec.loops if loops is None else loops
        U = spec.n_layer
        if spec.family == "standard":  # R counts its layers, unless U does
            R = spec.n_layer if spec.residual_scaling in ("none", "sqrt", "linear") else 1
        return residual_scale(spec.residual_scaling, R, U, spec.residual_factor)

    def backbone_parameters(self) -> int:
        """Number of parameters without read-in, read-out and positions."""
        positions = self.loop.positions
        total = sum(p.numel() for p in self.loop.parameters())
        return total - (0 if positions is None else positions.numel())

    def describe(self) -> str:
        """One phrase: that of its shape, and parameters."""
        return f"{self.spec.describe()}, {self.backbone_parameters():,} parameters in the backbone"

    def parameter_roles(self) -> dict[str, Role]:
        """Each parameter's role by name. Its kind is `matrix`, `bias`, `norm`, `embedding` (the
        read-in's weights and the positions), `lane` (the weights of hyper-connections),
        `injection` (the projection that injects) or `read_out`."""
        # `_kind` knows what stands outside the stacks; the loop below overwrites what is within.
        roles = {
            name: Role(_kind(name, parameter), (parameter.shape[0],))
            for name, parameter in self.named_parameters()
        }
        for stack, spec in self.loop.stacks().items():
            for layer, block in enumerate(self.loop.get_submodule(stack).children()):
                looped_layer = layer if stack == "blocks" else None
                for name, role in block_roles(block, spec).items():
                    roles[f"loop.{stack}.{layer}.{name}"] = role._replace(layer=looped_layer)
        return roles

    def _without_gradients(
        self, e: Tensor, loops: int, context: StepContext, stop_at: float
    ) -> LoopState:
        """The state after the first `loops` loops, or after the first that hardly changes it."""
        state = self.loop.start(e)
        if not stop_at:
            return self.run_segment(self.loop, state, e, Span(0, loops), context)[0]
        for t in range(loops):
            stream = state.stream
            state, _ = self.run_segment(self.loop, state, e, Span(t, 1), context)
            # The float makes the host wait for the device in each loop: only `stop_at` pays for it.
            if _median_change(stream, state.stream) <= stop_at:
                break
        return state

    def _predict(self, streams: Tensor, layout: Layout | None) -> Tensor:
        return self.reader.predictions(self.read_out(self.loop.read(streams, layout)))

    @contextmanager
    def backend_context(self, device: torch.device) -> Iterator[None]:
        """Within this context blocks compute by the model's operations, in its precision."""
        with using(self.operations), _products_in(self.compute_dtype, device):
            yield

    def _check(self, prompts: PromptBatch, loops: int, window: int, grad_loops: int) -> None:
        if not hasattr(prompts, "xs"):  # as model(xs, ys)
            kind = type(prompts).__name__
            raise ValueError(f"a model reads Prompts(xs, ys) as one argument, got a {kind}")
        if not 1 <= window <= grad_loops <= loops:
            raise ValueError(
                "a model needs 1 <= window <= grad_loops <= loops, "
                f"got {window}, {grad_loops} and {loops}"
            )
        if self.loop.most_loops is not None and loops > self.loop.most_loops:
            unit = "layers" if self.spec.family == "standard" else "sets of lane weights"
            raise ValueError(
                f"this model has {self.loop.most_loops} {unit} of its own for its loops "
                f"and cannot make {loops}"
            )
        self.reader.check(prompts)


def residual_scale(scaling: str, loops: int, layers: int, factor: float = 1.0) -> float:
    """The factor ε of each residual branch for R `loops` of U `layers` (arXiv 2606.18524): none 1,
    sqrt 1/√R, linear 1/R, factored λ/(R√U) with λ = `factor`. Of post-norm blocks it is 1/α, as
    their norm does not tell α x + f(x) from x + f(x)/α: (2RU)^-¼ (deepnorm, arXiv 2203.00555) or
    (2RU)^-½ (deeploop, arXiv 2607.13491). Raises ValueError for counts under 1."""
    if min(loops, layers) < 1:
        raise ValueError(f"loops and layers must be at least 1, got {loops} and {layers}")
    branches = 2 * loops * layers  # two of each layer in each loop
    match scaling:
        case "none":
            return 1.0
        case "sqrt":
            return 1 / math.sqrt(loops)
        case "linear":
            return 1 / loops
        case "factored":
            return factor / (loops * math.sqrt(layers))
        case "deepnorm":
            return float(branches**-0.25)
        case "deeploop":
            return float(branches**-0.5)
        case _:
            raise ValueError(f"there is no residual scaling {scaling!r}")


def _products_in(dtype: torch.dtype | None, device: torch.device) -> AbstractContextManager[object]:
    """Within this context products are in `dtype`; None: as outside."""
    return nullcontext() if dtype is None else torch.autocast(device.type, dtype=dtype)


@torch.no_grad()
def _median_change(before: Tensor, after: Tensor) -> float:
    """The change of the stream [B, S, n_embd] over its norm, of the median prompt: of a trained
    model some prompts never settle, but repeat two states in turn."""
    # Norms over tokens and width together: [B, S, D] → [B].
    change, size = (x.float().flatten(1).norm(dim=1) for x in (after - before, after))
    return float((change / size).median())


def _kind(name: str, parameter: nn.Parameter) -> str:
    # Before the test for biases: a LayerNorm's bias is to be trained as its gain is.
    if "norm" in name:
        return "norm"
    if name.startswith("loop.lane_"):
        return "lane"
    if name.endswith("bias"):
        return "bias"
    if name.startswith("read_out"):
        return "read_out"
    if name.startswith("read_in") or name.endswith("positions"):
        return "embedding"
    return "bias" if parameter.ndim == 1 else "injection"  # of a registered loop


@torch.no_grad()
def initialise(
    loop: Loop, read_in: nn.Module, read_out: nn.Module, generator: Generator, spec: ModelSpec
) -> None:
    """Initialise the loop's weights, then read-in and read-out, if the model has these. Of pairs:
    PyTorch's default for linear layers, uniform within ±1 / sqrt(fan-in); a halting logit's bias
    gives each loop about as large a share. Of a text: normal, with the spec's standard deviations;
    a tied head is the embedding."""
    initialise_loop(loop, generator, spec.position_std)
    if spec.vocabulary:
        for layer, std in ((read_in, spec.embedding_std), (read_out, spec.head_std)):
            for weight in layer.parameters():
                # A tied head has no parameters here: the embedding is drawn once, with its own std.
                nn.init.normal_(weight, std=std, generator=generator)
        return
    for layer in (read_in, read_out):
        if not isinstance(layer, nn.Linear):
            continue
        bound = 1 / math.sqrt(layer.in_features)
        nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
        nn.init.uniform_(layer.bias, -bound, bound, generator=generator)
    if spec.halts:
        # σ(−log(b − 1)) = 1/b is each loop's chance to halt at the start (the logit is last).
        read_out.get_parameter("bias")[-1] = -math.log(max(spec.loops - 1, 1))


@torch.no_grad()
def initialise_loop(loop: Loop, generator: Generator, position_std: float = _POSITION_STD) -> None:
    """Initialise blocks by initialise_block, norms as the identity, positions with std
    `position_std`, and the loop's other parameters by `Loop.initialise`."""
    for name, spec in loop.stacks().items():
        for block in loop.get_submodule(name).children():
            initialise_block(block, spec, generator)
    for module in loop.children():
        if isinstance(module, nn.LayerNorm | nn.RMSNorm):
            module.reset_parameters()
    # After the blocks are drawn, before the positions: this order is a part of what a seed means.
    loop.initialise()
    if loop.positions is not None:
        nn.init.normal_(loop.positions, std=position_std, generator=generator)
