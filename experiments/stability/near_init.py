"""A small transformer on fixed random tokens, near its initialisation: the effect of a loop on its
stream before any training, and over its first optimiser steps.

model, tokens = token_model(INITS["weak"], Stack(16, shared=True, scaling="linear"), seed=0)
raw, normed = model(tokens)             # [1, 128, 64] each
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from looplab.evaluation.bootstrap import Floats
from looplab.models.blocks.parameters import initialise_block
from looplab.models.blocks.spec import BlockSpec
from looplab.models.loops.loop import LayerLoop, Loop, StepContext
from looplab.models.loops.recurrent import RecurrentLoop
from looplab.models.model import residual_scale
from looplab.training.progress import Progress

from .settings import WIDTH, Init, StabilitySettings

# The length is the paper's (arXiv 2606.18524, Figure 2); vocabulary and heads are our choice.
TOKENS, VOCABULARY, HEADS = 128, 256, 4

STEPS = 10  # arXiv 2606.18524, Figures 2 and 9
PLACES = {"raw": "before the final norm", "normed": "after the final norm"}
_BETAS = (0.9, 0.95)  # that paper's; it does not give ε: here PyTorch's 1e-8
SHARED = {"looped": True, "non_shared": False}  # by the names of stacks
KINDS = {"looped": "looped", "non_shared": "not shared"}  # what pictures call them


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


def description(settings: StabilitySettings, init: Init) -> dict[str, Any]:
    """What the result of a figure of such models begins with; `what` is for titles."""
    return {
        "init": {"name": settings.init_name, "width": WIDTH, **init._asdict()},
        "what": f"{settings.init_name.replace('_', '-')} (U = {init.layers}, d = {WIDTH})",
        "loops": list(settings.all_loops),
        "seeds": len(settings.all_seeds),
        "seed": settings.seed,
    }


class FirstSteps(NamedTuple):
    """Root mean squares over tokens and width: of the last stream before the final norm, from
    initialisation on, [steps + 1]; and of its change by each step, before the norm and after it,
    [steps] each."""

    norm: Floats
    raw: Floats
    normed: Floats


def first_steps(init: Init, stack: Stack, seed: int, steps: int = STEPS) -> FirstSteps:
    """Train a new model on its tokens with AdamW, without weight decay, so that only gradients
    change the weights."""
    model, tokens = token_model(init, stack, seed)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=init.learning_rate, betas=_BETAS, weight_decay=0.0, foreach=True
    )
    raws, norms = list[Tensor](), list[Tensor]()
    for step in range(steps + 1):
        with torch.set_grad_enabled(step < steps):
            raw, normed = model(tokens)
        raws.append(raw.detach())
        norms.append(normed.detach())
        if step < steps:
            optimizer.zero_grad()
            model.loss(normed, tokens).backward()
            optimizer.step()
    return FirstSteps(
        _rms(torch.stack(raws)),
        _rms(torch.stack(raws).diff(dim=0)),
        _rms(torch.stack(norms).diff(dim=0)),
    )


def all_first_steps(
    tasks: Iterable[tuple[Init, Stack, int]], seeds: Sequence[int], title: str
) -> list[FirstSteps]:
    """The result of `first_steps` for each init, stack and number of steps, with the seeds as the
    first axis. Shows its progress."""
    task_list = list(tasks)
    # In forward passes of a block; a backward pass counts as two.
    work = [init.layers * stack.loops * (3 * steps + 1) for init, stack, steps in task_list]
    results = []
    with Progress(sum(work) * len(seeds), title, "block") as progress:
        for (init, stack, steps), blocks in zip(task_list, work, strict=True):
            runs = []
            for seed in seeds:
                runs.append(first_steps(init, stack, seed, steps))
                progress.update(blocks)
            results.append(FirstSteps(*(np.stack(parts) for parts in zip(*runs, strict=True))))
    return results


def _rms(states: Tensor) -> Floats:
    """Of states [steps, B, S, n_embd]: [steps]."""
    return states.double().square().mean((1, 2, 3)).sqrt().numpy()
