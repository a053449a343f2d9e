"""What a loop does to its stream before any training, and over its first optimiser steps.

The model is a small transformer on fixed random tokens (arXiv 2606.18524, Figures 2 to 4 and 9).

model, tokens = token_model(INITS["weak"], Stack(16, shared=True, scaling="linear"), seed=0)
raw, normed = model(tokens)             # [1, 128, 64] each
result = norms(Near("strong", seeds=2))
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
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


def by_seed(values: ArrayLike) -> dict[str, Any]:
    """Values [seeds, ...] as a result has them."""
    return {"by_seed": np.asarray(values).tolist()}


def values_of(found: Mapping[str, Any]) -> Floats:
    """What `by_seed` was given, [seeds, ...]."""
    return np.array(found["by_seed"], dtype=np.float64)


def slopes(loops: Sequence[int], values: Floats, min_loops: int) -> Floats:
    """The slope of log values [..., loops] over log loops, from `min_loops` on, by least squares,
    [...]."""
    mask = np.array(loops) >= min_loops
    x = np.log(np.array(loops, dtype=np.float64)[mask])
    x -= x.mean()
    return np.log(values[..., mask]) @ x / (x @ x)


def scaling_curves(values: Mapping[str, ArrayLike], before: str = "") -> list[Curve]:
    """A curve for each scaling of values [seeds, x], its label after `before`."""
    return [
        Curve.of(f"{before}{LABELS[scaling]}", scaling, mean_of_seeds(of))
        for scaling, of in values.items()
    ]


def loop_curves(values: Mapping[int, ArrayLike], sign: str = "R") -> list[Curve]:
    """A curve for each number of loops of values [seeds, x], which labels call R."""
    return [
        Curve.of(f"{sign} = {r}", "loops", mean_of_seeds(of), number=r) for r, of in values.items()
    ]


# The length is the paper's (arXiv 2606.18524, Figure 2); vocabulary and heads are our choice.
TOKENS, VOCABULARY, HEADS = 128, 256, 4

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
        self.loop, self.loops, self.steps, self.scale = loop, loops, steps, scale

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
        logits = normed[:, :-1] @ self.embedding.T
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def token_model(init: Init, stack: Stack, seed: int) -> tuple[TokenModel, Tensor]:
    """A new model of Llama blocks and its tokens [1, 128] for a seed. Tokens, embedding and the
    first U blocks do not depend on the stack."""
    generator = Generator().manual_seed(seed)
    layers = init.layers if stack.shared else init.layers * stack.loops
    spec = BlockSpec(WIDTH, HEADS, layers, kind="llama", length=TOKENS, std=init.block_std)
    loop = RecurrentLoop(spec) if stack.shared else LayerLoop(spec)
    scale = residual_scale(stack.scaling, stack.loops, init.layers)
    model = TokenModel(loop, stack.loops, 1 if stack.shared else init.layers, scale)
    tokens = torch.randint(VOCABULARY, (1, TOKENS), generator=generator)
    nn.init.normal_(model.embedding, std=init.embedding_std, generator=generator)
    for block in loop.blocks:
        initialise_block(block, spec, generator)
    return model, tokens


def _description(near: Near, init: Init) -> dict[str, Any]:
    """The beginning of a figure's result; `what` is for titles."""
    return {
        "init": {"name": near.init, "width": WIDTH, **init._asdict()},
        "what": f"{near.init.replace('_', '-')} (U = {init.layers}, d = {WIDTH})",
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
        with torch.set_grad_enabled(step < steps):
            raw, normed = model(tokens)
        outputs.append(torch.stack((raw, normed)).detach())
        if step < steps:
            optimizer.zero_grad()
            model.loss(normed, tokens).backward()
            optimizer.step()
    raws, norms = torch.stack(outputs, dim=1)
    parts = {"norm": raws, "raw": raws.diff(dim=0), "normed": norms.diff(dim=0)}
    return {
        name: part.double().square().mean((1, 2, 3)).sqrt().numpy() for name, part in parts.items()
    }


def all_first_steps(
    init: Init, stacks: Sequence[Stack], steps: int, seeds: Sequence[int]
) -> dict[str, Floats]:
    """The results of `first_steps` of each seed and stack, [seeds, stacks, ...]."""
    runs = []
    with Progress(len(seeds) * len(stacks), "first steps", "stack") as progress:
        for seed, stack in product(seeds, stacks):
            runs.append(first_steps(init, stack, seed, steps))
            progress.update()
    shape = (len(seeds), len(stacks), -1)
    return {name: np.array([run[name] for run in runs]).reshape(shape) for name in runs[0]}


def norms(near: Near) -> dict[str, Any]:
    """`norm`: for each sharing and scaling the root mean square of the last stream before the final
    norm over seeds, [loops, steps + 1], from initialisation on (Figure 2)."""
    init, loops = INITS[near.init], near.loops
    found: dict[str, dict[str, Any]] = {name: {} for name in STACKS}
    for (sharing, (_, shared)), scaling in product(STACKS.items(), LABELS):
        stacks = [Stack(r, shared, scaling) for r in loops]
        norm = all_first_steps(init, stacks, STEPS, range(near.seeds))["norm"]
        found[sharing][scaling] = by_seed(norm)
    return {**_description(near, init), "steps": STEPS, "norm": found}


def norms_panels(found: Mapping[str, Any]) -> list[Panel]:
    """The norms by step, a panel for each sharing and scaling, a curve for each number of loops."""
    panel = partial(
        Panel,
        x_label="optimiser step",
        y_label="norm (root mean square)",
        x=range(found["steps"] + 1),
        log="y",
        picture="norms",
    )
    drawn = []
    for (sharing, (kind, _)), scaling in product(STACKS.items(), LABELS):
        norm = values_of(found["norm"][sharing][scaling])
        name = f"norms-{sharing.replace('_', '-')}-{scaling}"
        title = f"{kind}, {LABELS[scaling]}; {found['what']}"
        curves = loop_curves(dict(zip(found["loops"], norm.swapaxes(0, 1), strict=True)))
        drawn.append(panel(name, title, curves=curves))
    return drawn


COSINE_LOOPS = 16  # our choice: the paper does not give it
COSINE_LAYERS = 12  # the paper's


def cosines(near: Near) -> dict[str, Any]:
    """Cosines between the increments of a new transformer's loops, and of an equally deep stack
    without shared weights, without residual scaling (Figure 3).

    `cosine`: for each sharing the matrix [loops, loops], which is averaged over tokens; `apart`,
    its mean over pairs of different increments. Their loops and layers are fixed.
    """
    init = INITS[near.init]._replace(layers=COSINE_LAYERS)
    result = {**_description(near, init), "loops": [*range(1, COSINE_LOOPS + 1)]}
    result |= {"cosine": {}, "apart": {}}
    for sharing, (_, shared) in STACKS.items():
        stack = Stack(COSINE_LOOPS, shared, "none")
        cosine = np.stack([increment_cosines(init, stack, seed) for seed in range(near.seeds)])
        result["cosine"][sharing] = by_seed(cosine)
        result["apart"][sharing] = by_seed(cosine[:, ~np.eye(COSINE_LOOPS, dtype=bool)].mean(1))
    return result


def cosines_panels(found: Mapping[str, Any]) -> list[Panel]:
    """The cosines of each sharing in colours, and by the distance between two loops."""
    drawn, curves = list[Panel](), list[Curve]()
    loops = len(found["loops"])
    for sharing, (kind, shared) in STACKS.items():
        cosine = values_of(found["cosine"][sharing])
        title = f"{kind}: cosine, mean over tokens and seeds; {found['what']}"
        name = f"cosines-{sharing.replace('_', '-')}"
        drawn.append(matrix_panel(name, title, cosine.mean(0).tolist(), "cosines"))
        interval = mean_of_seeds(by_distance(cosine, loops))
        curves.append(Curve.of(kind, "looped" if shared else "standard", interval))
    title = f"increments of {loops} loops, {found['what']}"
    return [*drawn, distance_panel("cosines", title, curves)]


@torch.no_grad()
def increment_cosines(init: Init, stack: Stack, seed: int) -> Floats:
    """The cosines between the increments of the stream, averaged over tokens, [loops, loops]."""
    model, tokens = token_model(init, stack, seed)
    increments = torch.stack([stream.double() for stream in model.streams(tokens)]).diff(dim=0)
    units = increments / torch.linalg.vector_norm(increments, dim=-1, keepdim=True)
    return cosines_of(units)[0].numpy()


def matrix_panel(
    name: str, title: str, matrix: Sequence[Sequence[float | None]], picture: str = ""
) -> Panel:
    """The cosines [loops, loops] between increments in colours."""
    axis, x = "increment of loop", range(1, len(matrix) + 1)
    return Panel(name, title, axis, axis, x, matrix=matrix, picture=picture)


def distance_panel(name: str, title: str, curves: Sequence[Curve]) -> Panel:
    """Curves of `by_distance`."""
    axes = ("distance between two loops", "cosine of their increments, mean")
    x = range(1, len(curves[0].mean) + 1)
    return Panel(f"{name}-by-distance", title, *axes, x, curves)


def by_distance(matrices: Floats, longest: int) -> Floats:
    """The mean of each diagonal above the main one of cosines [seeds, loops, loops] that may be
    nan, [seeds, longest - 1]: nan where all are, and from `loops` on."""
    cosines = np.ma.masked_invalid(matrices)
    means = [cosines.diagonal(distance, 1, 2).mean(1) for distance in range(1, longest)]
    return np.ma.stack(means, axis=1).filled(np.nan)


SLOPES_FROM = 4  # loops; with fewer, terms that do not grow with them still matter


def changes(near: Near) -> dict[str, Any]:
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
    result = {**_description(near, init), "steps": STEPS}
    result |= {part: {place: {} for place in PLACES} for part in ("change", "slope")}
    for scaling in LABELS:
        stacks = [Stack(r, True, scaling) for r in near.loops]
        moved = all_first_steps(init, stacks, STEPS, range(near.seeds))
        for place in PLACES:
            found = slopes(near.loops, moved[place].swapaxes(1, 2), SLOPES_FROM)
            result["change"][place][scaling] = by_seed(moved[place])
            result["slope"][place][scaling] = by_seed(found)
    return result


def changes_panels(found: Mapping[str, Any]) -> list[Panel]:
    """Before the final norm and after it: changes by loops at the first step, and by step, a panel
    for each scaling; and slopes by step."""
    drawn, loops = list[Panel](), found["loops"]
    steps = range(1, found["steps"] + 1)
    step, moved = "optimiser step", "change (root mean square)"
    slope = "slope of log change over log R"
    first = partial(Panel, x_label="loops R", y_label=moved, x=loops, log="xy", picture="changes")
    each = partial(Panel, x_label=step, y_label=moved, x=steps, log="y", picture="changes-steps")
    by_step = partial(Panel, x_label=step, y_label=slope, x=steps, picture="changes-by-step")
    for place, where in PLACES.items():
        title = f"{where}, {found['what']}"
        change, slopes = (
            {name: values_of(of) for name, of in found[part][place].items()}
            for part in ("change", "slope")
        )
        curves = scaling_curves({scaling: of[:, :, 0] for scaling, of in change.items()})
        drawn.append(first(f"changes-step-1-{place}", f"step 1, {title}", curves=curves))
        for scaling, of in change.items():
            curves = loop_curves(dict(zip(loops, of.swapaxes(0, 1), strict=True)))
            name = f"changes-by-step-{place}-{scaling}"
            drawn.append(each(name, f"{LABELS[scaling]}, {title}", curves=curves))
        drawn.append(by_step(f"changes-slope-{place}", title, curves=scaling_curves(slopes)))
    return drawn
