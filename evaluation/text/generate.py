"""Continue a text with a language model.

for text in generate(load_run("runs/NAME"), "Call me", Generation(tokens=100)): print(text)
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from looplab.conf.mistakes import ConfigError
from looplab.models.operations import Cache
from looplab.tasks.language import Language
from looplab.tasks.language.tokens import Tokenizer
from looplab.training.assemble import trained_loops
from looplab.training.device import place_exactly
from looplab.training.run_folder.run import Run


@dataclass(frozen=True)
class Generation:
    """The way in which a text is continued: by how many tokens, drawn at which temperature (0:
    always the likeliest) from the `top` likeliest (0: from all), with which seed, after how many
    loops (None: b), and on which device."""

    tokens: int = 200
    temperature: float = 0.8
    top: int = 0
    seed: int = 0
    loops: int | None = None
    device: str = "auto"


def generate(run: Run, prompt: str, settings: Generation, samples: int = 1) -> Iterator[str]:
    """`samples` continuations of a prompt, each without it. The model reads the start token and the
    last tokens that it has positions for: where these are full, the first half of them goes.

    Raises ConfigError for a run that is no language model, and for a prompt longer than its
    positions."""
    task = run.task
    if not isinstance(task, Language):
        raise ConfigError("run", f"is no language model but one of task={run.config.task.name}")
    first = [task.tokenizer.start, *task.tokenizer.encode(prompt).tolist()]
    if len(first) > run.model.spec.n_positions:
        raise ConfigError(
            "prompt",
            f"is {len(first)} tokens with the start token, and the model has "
            f"{run.model.spec.n_positions} positions",
        )
    model = place_exactly(settings.device).prepare(run.model)
    device = next(model.parameters()).device
    loops = settings.loops or trained_loops(run.config)
    most = run.model.loop.most_loops
    if most is not None and loops > most:
        raise ConfigError("loops", f"is {loops}, and the model makes at most {most}")
    for sample in range(samples):
        generator = Generator().manual_seed(settings.seed + sample)
        tokens, cache, new = list(first), Cache(), list(first)
        for _ in range(settings.tokens):
            if cache.length + len(new) > model.spec.n_positions:
                kept = model.spec.n_positions // 2
                cache, new = Cache(), [first[0], *tokens[-kept:]]
            logits = model.continue_text(torch.tensor([new], device=device), loops, cache)
            new = [_draw(logits[0, -1].float().cpu(), settings, generator)]
            tokens += new
        yield _continuation(task.tokenizer, tokens[1:], len(first) - 1)


def _continuation(tokenizer: Tokenizer, tokens: Sequence[int], count: int) -> str:
    """The text of all but the first `count` tokens, with the space that a tokeniser may leave out
    at the beginning of a text."""
    before, whole = tokenizer.decode(tokens[:count]), tokenizer.decode(tokens)
    return whole[len(before) :] if whole.startswith(before) else tokenizer.decode(tokens[count:])


def _draw(logits: Tensor, settings: Generation, generator: Generator) -> int:
    """A token by its logits [vocabulary]."""
    if not settings.temperature:
        return int(logits.argmax())
    if settings.top and settings.top < len(logits):
        least = logits.topk(settings.top).values[-1]
        logits = logits.masked_fill(logits < least, -torch.inf)
    probabilities = (logits / settings.temperature).softmax(0)
    return int(torch.multinomial(probabilities, 1, generator=generator))
