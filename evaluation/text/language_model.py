"""What a language model says: how likely the end of a text is, and how a text goes on.

print(generate(load_run("runs/NAME"), "Call me", Generation(tokens=100)))
model = language_model(load_run("runs/NAME"), loops=8)
(score,) = model.score([(context, end)])  # tokens, without the start token
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import torch
from torch import Generator
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence
from tqdm import tqdm

from looplab.conf.mistakes import ConfigError
from looplab.models import Model
from looplab.models.operations import Cache
from looplab.tasks import Prompts
from looplab.tasks.language import Language
from looplab.tasks.language.tokens import Tokenizer
from looplab.training.assemble import trained_loops
from looplab.training.device import place_exactly
from looplab.training.run_folder.run import Run

from .settings import Generation

Pair = tuple[Sequence[int], Sequence[int]]


class Score(NamedTuple):
    """The nats of a continuation, of how many of its tokens they are, and whether each of these is
    the likeliest in its place. `cut` says that the text was too long and lost its beginning."""

    nats: float
    tokens: int
    exact: bool
    cut: bool


@dataclass(frozen=True)
class LanguageModel:
    """A model on its device, its tokeniser, and the loops of every pass."""

    model: Model
    tokenizer: Tokenizer
    loops: int

    @property
    def positions(self) -> int:
        """The most tokens that the model reads at once, the start token among them."""
        return self.model.spec.n_positions

    @torch.no_grad()
    def score(self, pairs: Sequence[Pair], batch_size: int = 16) -> list[Score]:
        """The score of each continuation after the start token and its context, both given as
        tokens without start token. Of a text longer than the model's positions the last tokens are
        read, after the start token; the very last one is only predicted."""
        device = next(self.model.parameters()).device
        start = self.tokenizer.start
        lengths = [len(context) + len(end) for context, end in pairs]
        # Texts of one batch have about one length; padding comes after all that is judged.
        order = sorted(range(len(pairs)), key=lengths.__getitem__, reverse=True)
        scores = dict[int, Score]()
        batches = range(0, len(order), batch_size)
        for first in tqdm(batches, disable=None if len(batches) > 1 else True):
            indices = order[first : first + batch_size]
            rows = []  # of the start token and a text, as far as there are positions for it
            for index in indices:
                context, end = pairs[index]
                text = list(context) + list(end)
                # One token more than there are positions, since the last one is only predicted.
                rows.append(torch.tensor([start, *text[-self.positions :]]))
            tokens = pad_sequence(rows, batch_first=True, padding_value=start)
            prompts = Prompts(tokens[:, :-1], tokens[:, 1:]).to(device)
            logits = self.model(prompts, self.loops)[-1]  # [B, n, vocabulary]
            # −log p of each token, padding too: what is judged is cut out below.
            nats = F.cross_entropy(logits.flatten(0, 1), prompts.ys.flatten(), reduction="none")
            nats = nats.view_as(prompts.ys).double().cpu()
            is_likeliest = (logits.argmax(-1) == prompts.ys).cpu()
            for row, index in enumerate(indices):
                size = len(rows[row]) - 1  # without the start token; the end is its last tokens
                count = min(len(pairs[index][1]), size)
                judged = row, slice(size - count, size)
                sum_of_nats = float(nats[judged].sum())
                is_exact = bool(is_likeliest[judged].all())
                scores[index] = Score(sum_of_nats, count, is_exact, lengths[index] > size)
        return [scores[index] for index in range(len(pairs))]

    def continued(self, first: Sequence[int], settings: Generation) -> Iterator[int]:
        """The tokens after `first`, of which the start token is the first, one by one and without
        end: drawn as `settings` say, whose loops, tokens and device have no part in it. The model
        reads the start token and the last tokens that it has positions for: where these are full,
        the first half of them goes. Raises ValueError for more tokens than positions."""
        generator = Generator().manual_seed(settings.seed)
        device = next(self.model.parameters()).device
        tokens = list(first)
        cache = Cache(settings.shared)
        new = list(first)  # tokens that the model has not read
        while True:
            logits = self.model.continue_text(torch.tensor([new], device=device), self.loops, cache)
            # Drawn on the CPU, so that the numbers do not depend on the device.
            if settings.temperature:
                probabilities = (logits[0, -1].float().cpu() / settings.temperature).softmax(0)
                new = [int(torch.multinomial(probabilities, 1, generator=generator))]
            else:
                new = [int(logits[0, -1].argmax())]
            yield new[0]
            tokens += new
            if cache.length == self.positions:
                cache = Cache(settings.shared)
                new = [first[0], *tokens[-(self.positions // 2) :]]


def language_model(run: Run, loops: int | None = None, device: str = "auto") -> LanguageModel:
    """The model of a run, at as many loops (where not given, those of its training). Raises
    ConfigError for a run that is no language model, for too many loops, and for a device that this
    machine lacks."""
    if not isinstance(run.task, Language):
        raise ConfigError("run", f"is no language model but one of task={run.config.task.name}")
    model = place_exactly(device).prepare(run.model)
    loops = loops or trained_loops(run.config)
    most = model.loop.most_loops
    if most is not None and loops > most:
        raise ConfigError("loops", f"is {loops}, and the model makes at most {most}")
    return LanguageModel(model, run.task.tokenizer, loops)


def generate(run: Run, prompt: str, settings: Generation) -> str:
    """The continuation of a prompt, without it. Raises ConfigError as `language_model`, and for a
    prompt longer than the model's positions."""
    model = language_model(run, settings.loops, settings.device)
    tokens = model.tokenizer.encode(prompt).tolist()
    first = [model.tokenizer.start, *tokens]
    if len(first) > model.positions:
        size = f"{len(first)} tokens with the start token"
        raise ConfigError("prompt", f"is {size}, and the model has {model.positions} positions")
    written = islice(model.continued(first, settings), settings.tokens)
    return continuation(model.tokenizer, [*tokens, *written], len(tokens))


def continuation(tokenizer: Tokenizer, tokens: Sequence[int], count: int) -> str:
    """The text of all but the first `count` tokens, with the space that a tokeniser may leave out
    at the beginning of a text."""
    before = tokenizer.decode(tokens[:count])
    whole = tokenizer.decode(tokens)
    if whole.startswith(before):
        return whole[len(before) :]
    return tokenizer.decode(tokens[count:])
