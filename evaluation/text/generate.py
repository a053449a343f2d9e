"""Continue a text with a language model.

print(generate(load_run("runs/NAME"), "Call me", Generation(tokens=100)))
"""

from collections.abc import Sequence

import torch
from torch import Generator

from looplab.conf.mistakes import ConfigError
from looplab.models.operations import Cache
from looplab.tasks.language import Language
from looplab.tasks.language.tokens import Tokenizer
from looplab.training.assemble import trained_loops
from looplab.training.device import place_exactly
from looplab.training.run_folder.run import Run

from .settings import Generation


def generate(run: Run, prompt: str, settings: Generation) -> str:
    """The continuation of a prompt, without it. The model reads the start token and the last tokens
    that it has positions for: where these are full, the first half of them goes.

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
    generator = Generator().manual_seed(settings.seed)
    tokens, cache, new = list(first), Cache(settings.shared), list(first)
    for _ in range(settings.tokens):
        if cache.length + len(new) > model.spec.n_positions:
            kept = model.spec.n_positions // 2
            cache, new = Cache(settings.shared), [first[0], *tokens[-kept:]]
        logits = model.continue_text(torch.tensor([new], device=device), loops, cache)[0, -1]
        if settings.temperature:
            probabilities = (logits.float().cpu() / settings.temperature).softmax(0)
            new = [int(torch.multinomial(probabilities, 1, generator=generator))]
        else:
            new = [int(logits.argmax())]
        tokens += new
    return _continuation(task.tokenizer, tokens[1:], len(first) - 1)


def _continuation(tokenizer: Tokenizer, tokens: Sequence[int], count: int) -> str:
    """The text of all but the first `count` tokens, with the space that a tokeniser may leave out
    at the beginning of a text."""
    before, whole = tokenizer.decode(tokens[:count]), tokenizer.decode(tokens)
    return whole[len(before) :] if whole.startswith(before) else tokenizer.decode(tokens[count:])
