"""What a loop does to its stream before any training, and over its first optimiser steps.

The model is a small transformer on fixed random tokens (arXiv 2606.18524, Figures 2 to 4 and 9).

model, tokens = token_model(INITS["weak"], Stack(16, shared=True, scaling="linear"), seed=0)
raw, normed = model(tokens)             # [1, 128, 64] each
result = norms(Near("strong", seeds=2))
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from looplab.conf.build import build
from looplab.conf.mistakes import ConfigError
from looplab.conf.setting import check_settings, setting
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.statistics import Estimate
from looplab.models.blocks.parameters import initialise_block
from looplab.models.blocks.spec import BlockSpec
from looplab.models.loops.loop import LayerLoop, Loop, StepContext
from looplab.models.loops.recurrent import RecurrentLoop
from looplab.models.model import residual_scale
from looplab.probing.dynamics.trajectory import cosines as cosines_of
from looplab.show.panel import Curve, Panel, mean_of_seeds
from looplab.training.progress import Progress

from .question import Result

# The residual scalings of arXiv 2606.18524.
LABELS = {"none": "ε = 1 (none)", "sqrt": "ε = 1/√R (sqrt)", "linear": "ε = 1/R (linear)"}


class Init(NamedTuple):
    """A transformer near its initialisation: its U layers, the standard deviations of its embedding
    and of its blocks' matrices, and AdamW's learning rate."""

    layers: int
    embedding_std: float
    block_std: float
    learning_rate: float


WIDTH = 64
# Weak and strong: the size of the branches relative to the embedding.
INITS = {
    "weak": Init(1, 1.0, 0.01, 1e-4),
    "strong": Init(1, 2.0, WIDTH**-0.5, 1e-4),
    "paper_like": Init(4, 0.02, 0.02, 1e-3),
}


@dataclass(frozen=True)
class Near:
    """Settings of a figure: the weights of a new transformer, numbers of loops (both where the
    figure is of several), and seeds."""

    init: Literal["weak", "strong", "paper_like"] = "weak"
    loops: tuple[int, ...] = setting((1, 2, 4, 8, 16, 32, 64), "rising", at_least=1)
    seeds: int = setting(10, "how many; one has no spread", at_least=2)


def near_of(given: Mapping[str, Any]) -> Near:
    """The settings from an experiment's file; ConfigError for others."""
    near = build(Near, given)
    check_settings("settings.", near)
    return near


def sized(estimate: Estimate, result: Mapping[str, Any], steps: int) -> Estimate:
    """The estimate with the size of a result's models, after so many steps."""
    size = f"U = {result['init']['layers']}, d = {result['init']['width']}"
    return estimate._replace(steps=steps, size=size)


def by_seed(values: ArrayLike) -> Result:
    """Values [seeds, ...] as a result has them."""
    return {"by_seed": np.asarray(values).tolist()}


def values_of(stored: Result) -> Floats:
    """What `by_seed` was given, [seeds, ...]."""
    return np.array(stored["by_seed"], dtype=np.float64)


def slopes(loops: Sequence[int], values: Floats, min_loops: int) -> Floats:
    """The slope of log values [..., loops] over log loops, from `min_loops` on, by least squares,
    [...]."""
    mask = np.array(loops) >= min_loops
    x = np.log(np.array(loops, dtype=np.float64)[mask])
    x -= x.mean()  # so that the slope needs no mean of y
    return np.log(values[..., mask]) @ x / (x @ x)


def scaling_curves(values: Mapping[str, ArrayLike], before: str = "") -> list[Curve]:
    """A curve for each scaling of values [seeds, x], its label after `before`."""
    return [
        Curve.of(f"{before}{LABELS[scaling]}", scaling, mean_of_seeds(by_seed))
        for scaling, by_seed in values.items()
    ]


def loop_curves(values: Mapping[int, ArrayLike], sign: str = "R") -> list[Curve]:
    """A curve for each number of loops of values [seeds, x], which labels call R."""
    return [
        Curve.of(f"{sign} = {r}", "loops", mean_of_seeds(by_seed), number=r)
        for r, by_seed in values.items()
    ]


TOKENS = 128  # the paper's (arXiv 2606.18524, Figure 2)
VOCABULARY = 256  # our choice, and the heads, too
HEADS = 4

STEPS = 10  # arXiv 2606.18524, Figures 2 and 9
PLACES = {"raw": "before the final norm", "normed": "after the final norm"}
_BETAS = (0.9, 0.95)  # that paper's; it does not give ε: here PyTorch's 1e-8
# By the names of stacks what pictures call them, and whether they share their weights.
STACKS = {"looped": ("looped", True), "non_shared": ("not shared", False)}


class Stack(NamedTuple):
    """R `loops` of an init's U layers: the same ones each time, or (not `shared`) R U different
    ones; in both cases with the ε of R loops."""

    loops: int
    shared: bool
    scaling: str


class TokenModel(nn.Module):
    """Embedding, a stack without norm or injection between loops, final norm, and the embedding
    again as the head."""

    def __init__(self, loop: Loop, loops: int, steps: int, scale: float) -> None:
        """Each of the `loops` is `steps` steps of `loop`, branches times `scale`."""
        super().__init__()
        self.embedding = nn.Parameter(
            torch.empty(VOCABULARY, loop.spec.n_embd, dtype=torch.float32)
        )
        self.loop = loop
        self.loops = loops
        self.steps = steps
        self.scale = scale

    def streams(self, tokens: Tensor) -> Iterator[Tensor]:
        """The stream [B, S, n_embd] of tokens [B, S] before the first loop and after each."""
        e = self.loop.prepare(self.embedding[tokens])
        state = self.loop.start(e)
        yield state.stream
        for loop in range(self.loops):
            for step in range(self.steps):
                state = self.loop.step(state, e, loop * self.steps + step, StepContext(self.scale))
            yield state.stream

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """The stream after the last loop, before and after the final norm, [B, S, n_embd] each."""
        *_, raw = self.streams(tokens)
        return raw, self.loop.read(raw)

    def loss(self, normed: Tensor, tokens: Tensor) -> Tensor:
        """The mean cross-entropy of each token after the first, from the normed stream before
        it."""
        # The head is the embedding; the last token predicts none.
        logits = normed[:, :-1] @ self.embedding.T
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def token_model(init: Init, stack: Stack, seed: int) -> tuple[TokenModel, Tensor]:
    """A new model of Llama blocks and its tokens [1, 128] for a seed. Tokens, embedding and the
    first U blocks do not depend on the stack."""
    generator = Generator().manual_seed(seed)
    layers = init.layers if stack.shared else init.layers * stack.loops
    spec = BlockSpec(WIDTH, HEADS, layers, kind="llama", length=TOKENS, std=init.block_std)
    scale = residual_scale(stack.scaling, stack.loops, init.layers)
    loop: Loop
    if stack.shared:
        loop = RecurrentLoop(spec)  # a step is all U layers
        model = TokenModel(loop, stack.loops, 1, scale)
    else:
        loop = LayerLoop(spec)  # a step is one layer
        model = TokenModel(loop, stack.loops, init.layers, scale)
    tokens = torch.randint(VOCABULARY, (1, TOKENS), generator=generator)
    nn.init.normal_(model.embedding, std=init.embedding_std, generator=generator)
    for block in loop.blocks:
        initialise_block(block, spec, generator)
    return model, tokens


def _description(near: Near, init: Init) -> Result:
    """The beginning of a figure's result; `what` is for titles."""
    name = near.init.replace("_", "-")
    return {
        "init": {"name": near.init, "width": WIDTH} | init._asdict(),
        "what": f"{name} (U = {init.layers}, d = {WIDTH})",
        "loops": list(near.loops),
        "seeds": near.seeds,
    }


def first_steps(init: Init, stack: Stack, seed: int, steps: int) -> dict[str, Floats]:
    """Train a new model on its tokens with AdamW, without weight decay, so that only gradients
    change the weights. Returns root mean squares over tokens and width: of the last stream before
    the final norm, `norm`, from initialisation on, [steps + 1]; and of its change by each step
    before the norm, `raw`, and after it, `normed`, [steps] each."""
    model, tokens = token_model(init, stack, seed)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=init.learning_rate, betas=_BETAS, weight_decay=0.0, foreach=True
    )
    outputs = list[Tensor]()
    for step in range(steps + 1):
        # The output after the last step is looked at, and no gradient of it is needed.
        with torch.set_grad_enabled(step < steps):
            raw, normed = model(tokens)
        outputs.append(torch.stack((raw, normed)).detach())
        if step < steps:
            optimizer.zero_grad()
            model.loss(normed, tokens).backward()
            optimizer.step()
    raws, norms = torch.stack(outputs, dim=1)  # [steps + 1, 1, tokens, width] each
    return {
        "norm": _root_mean_square(raws),
        "raw": _root_mean_square(raws.diff(dim=0)),
        "normed": _root_mean_square(norms.diff(dim=0)),
    }


def _root_mean_square(streams: Tensor) -> Floats:
    """The root mean square of each of streams [steps, 1, tokens, width], [steps]."""
    return streams.double().square().mean((1, 2, 3)).sqrt().numpy()


def all_first_steps(
    init: Init, stacks: Sequence[Stack], steps: int, seeds: Sequence[int]
) -> dict[str, Floats]:
    """The results of `first_steps` of each seed and stack, [seeds, stacks, ...]."""
    runs = []
    with Progress(len(seeds) * len(stacks), "first steps", "stack") as progress:
        for seed, stack in product(seeds, stacks):
            runs.append(first_steps(init, stack, seed, steps))
            progress.update()
    results = {}
    for name in runs[0]:
        values = np.array([run[name] for run in runs])
        results[name] = values.reshape(len(seeds), len(stacks), -1)
    return results


def norms(near: Near) -> Result:
    """`norm`: for each sharing and scaling the root mean square of the last stream before the final
    norm over seeds, [loops, steps + 1], from initialisation on (Figure 2)."""
    init = INITS[near.init]
    norm: dict[str, Result] = {}
    for sharing, (_, shared) in STACKS.items():
        norm[sharing] = {}
        for scaling in LABELS:
            stacks = [Stack(r, shared, scaling) for r in near.loops]
            first = all_first_steps(init, stacks, STEPS, range(near.seeds))
            norm[sharing][scaling] = by_seed(first["norm"])
    return _description(near, init) | {"steps": STEPS, "norm": norm}


def norms_panels(result: Mapping[str, Any]) -> list[Panel]:
    """The norms by step, a panel for each sharing and scaling, a curve for each number of loops."""
    axes = ("optimiser step", "norm (root mean square)")
    steps = range(result["steps"] + 1)
    drawn = []
    for (sharing, (kind, _)), scaling in product(STACKS.items(), LABELS):
        norm = values_of(result["norm"][sharing][scaling])
        name = f"norms-{sharing.replace('_', '-')}-{scaling}"
        title = f"{kind}, {LABELS[scaling]}; {result['what']}"
        curves = loop_curves(dict(zip(result["loops"], norm.swapaxes(0, 1), strict=True)))
        drawn.append(Panel(name, title, *axes, steps, curves, log="y", picture="norms"))
    return drawn


COSINE_LOOPS = 16  # our choice: the paper does not give it
COSINE_LAYERS = 12  # the paper's


def cosines(near: Near) -> Result:
    """Cosines between the increments of a new transformer's loops, and of an equally deep stack
    without shared weights, without residual scaling (Figure 3).

    `cosine`: for each sharing the matrix [loops, loops], which is averaged over tokens; `apart`,
    its mean over pairs of different increments. Their loops and layers are fixed.
    """
    init = INITS[near.init]._replace(layers=COSINE_LAYERS)
    different = ~np.eye(COSINE_LOOPS, dtype=bool)
    result = _description(near, init)
    result["loops"] = list(range(1, COSINE_LOOPS + 1))
    result |= {"cosine": {}, "apart": {}}
    for sharing, (_, shared) in STACKS.items():
        stack = Stack(COSINE_LOOPS, shared, "none")
        cosine = np.stack([increment_cosines(init, stack, seed) for seed in range(near.seeds)])
        result["cosine"][sharing] = by_seed(cosine)
        result["apart"][sharing] = by_seed(cosine[:, different].mean(1))
    return result


def cosines_panels(result: Mapping[str, Any]) -> list[Panel]:
    """The cosines of each sharing in colours, and by the distance between two loops."""
    drawn = []
    curves = []
    loops = len(result["loops"])
    for sharing, (kind, shared) in STACKS.items():
        cosine = values_of(result["cosine"][sharing])
        title = f"{kind}: cosine, mean over tokens and seeds; {result['what']}"
        name = f"cosines-{sharing.replace('_', '-')}"
        drawn.append(matrix_panel(name, title, cosine.mean(0).tolist(), "cosines"))
        interval = mean_of_seeds(by_distance(cosine, loops))
        curves.append(Curve.of(kind, "looped" if shared else "standard", interval))
    title = f"increments of {loops} loops, {result['what']}"
    drawn.append(distance_panel("cosines", title, curves))
    return drawn


@torch.no_grad()
def increment_cosines(init: Init, stack: Stack, seed: int) -> Floats:
    """The cosines between the increments of the stream, averaged over tokens, [loops, loops]."""
    model, tokens = token_model(init, stack, seed)
    increments = torch.stack([stream.double() for stream in model.streams(tokens)]).diff(dim=0)
    # [loops, 1, tokens, width], each of length 1.
    units = increments / torch.linalg.vector_norm(increments, dim=-1, keepdim=True)
    return cosines_of(units)[0].numpy()


def matrix_panel(
    name: str, title: str, matrix: Sequence[Sequence[float | None]], picture: str = ""
) -> Panel:
    """The cosines [loops, loops] between increments in colours."""
    axis = "increment of loop"
    loops = range(1, len(matrix) + 1)
    return Panel(name, title, axis, axis, loops, matrix=matrix, picture=picture)


def distance_panel(name: str, title: str, curves: Sequence[Curve]) -> Panel:
    """Curves of `by_distance`."""
    axes = ("distance between two loops", "cosine of their increments, mean")
    x = range(1, len(curves[0].mean) + 1)
    return Panel(f"{name}-by-distance", title, *axes, x, curves)


def by_distance(matrices: Floats, longest: int) -> Floats:
    """The mean of each diagonal above the main one of cosines [seeds, loops, loops] that may be
    nan, [seeds, longest - 1]: nan where all are, and from `loops` on."""
    # A run with fewer loops has nan beyond them, and no part in a mean.
    cosines = np.ma.masked_invalid(matrices)
    means = [cosines.diagonal(distance, 1, 2).mean(1) for distance in range(1, longest)]
    return np.ma.stack(means, axis=1).filled(np.nan)


SLOPES_FROM = 4  # loops; with fewer, terms that do not grow with them still matter


def changes(near: Near) -> Result:
    """The change of a looped transformer's output by each optimiser step (Figures 4 and 9). The
    slopes 1 (none), 1/2 (sqrt) and 0 (linear) are a law of small branches, beside a large
    embedding: those by step show how far it holds.

    Over seeds, for each of PLACES and scaling: `change` [loops, steps] and `slope` [steps] of log
    change over log R from 4 loops on. ConfigError for fewer than two numbers of loops from 4 on.
    """
    init = INITS[near.init]
    if sum(r >= SLOPES_FROM for r in near.loops) < 2:
        text = f"must hold two numbers from {SLOPES_FROM} on, over which slopes are taken"
        raise ConfigError("loops", f"{text}, got {list(near.loops)}")
    result = _description(near, init) | {"steps": STEPS}
    result["change"] = {place: {} for place in PLACES}
    result["slope"] = {place: {} for place in PLACES}
    for scaling in LABELS:
        stacks = [Stack(r, True, scaling) for r in near.loops]
        first = all_first_steps(init, stacks, STEPS, range(near.seeds))
        for place in PLACES:
            change = first[place]  # [seeds, loops, steps]
            slope = slopes(near.loops, change.swapaxes(1, 2), SLOPES_FROM)
            result["change"][place][scaling] = by_seed(change)
            result["slope"][place][scaling] = by_seed(slope)
    return result


def changes_panels(result: Mapping[str, Any]) -> list[Panel]:
    """Before the final norm and after it: changes by loops at the first step, and by step, a panel
    for each scaling; and slopes by step."""
    loops = result["loops"]
    steps = range(1, result["steps"] + 1)
    change_axis = "change (root mean square)"
    by_loops = ("loops R", change_axis, loops)
    by_step = ("optimiser step", change_axis, steps)
    slope_by_step = ("optimiser step", "slope of log change over log R", steps)
    drawn = []
    for place, where in PLACES.items():
        title = f"{where}, {result['what']}"
        changes = {name: values_of(kept) for name, kept in result["change"][place].items()}
        slopes = {name: values_of(kept) for name, kept in result["slope"][place].items()}
        curves = scaling_curves({scaling: values[:, :, 0] for scaling, values in changes.items()})
        name = f"changes-step-1-{place}"
        first_step = f"step 1, {title}"
        drawn.append(Panel(name, first_step, *by_loops, curves, log="xy", picture="changes"))
        for scaling, values in changes.items():
            curves = loop_curves(dict(zip(loops, values.swapaxes(0, 1), strict=True)))
            name = f"changes-by-step-{place}-{scaling}"
            scaled = f"{LABELS[scaling]}, {title}"
            drawn.append(Panel(name, scaled, *by_step, curves, log="y", picture="changes-steps"))
        curves = scaling_curves(slopes)
        name = f"changes-slope-{place}"
        drawn.append(Panel(name, title, *slope_by_step, curves, picture="changes-by-step"))
    return drawn
