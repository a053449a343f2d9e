"""Bits per byte and perplexity of whole texts, loop by loop.

rows = blocks(tokens, start, length=256, most=200_000, name="held_out")
result = text_result(arrays, documents, settings)
"""

import math
from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import EvaluationConfig
from looplab.models import Model
from looplab.tasks import Prompts
from looplab.tasks.language.store import Tokens
from looplab.tasks.language.tokens import Lengths, Tokenizer, lengths_in_text
from looplab.training.objective import error

from ..bootstrap import Band, Floats, Interval, resampled_means
from ..evaluation import TextScores
from ..kept import Arrays


def blocks(tokens: Tokens, start: int, length: int, most: int, name: str) -> Prompts:
    """The tokens of a text, each document begun by the start token, cut into blocks of `length`
    that do not overlap; the rest that fills none is left out, and what lies beyond `most` tokens.
    The first token of each block is predicted from the start token, as in training. Raises
    ConfigError for a text that is shorter than a block."""
    count = min(len(tokens), max(most, length)) // length
    if not count:
        problem = f"is {length}, but the text {name} has only {len(tokens)} tokens"
        raise ConfigError("task.points", problem)
    ys = torch.from_numpy(tokens[: count * length].reshape(count, length).astype(np.int64))
    starts = torch.full_like(ys[:, :1], start)
    return Prompts(torch.cat((starts, ys[:, :-1]), dim=1), ys)


def running_blocks(tokens: Tokens, length: int, most: int) -> Prompts:
    """Tokens as the code of arXiv 2605.18797 reads WikiText-2: in blocks without start
    tokens of their own, each of which predicts the `length` tokens after its first. Empty for a
    text that fills none."""
    # One token more than the blocks' own: the last block predicts it.
    count = (min(len(tokens), max(most, length) + 1) - 1) // length
    stream = torch.from_numpy(tokens[: count * length + 1].astype(np.int64))
    return Prompts(stream[:-1].view(count, length), stream[1:].view(count, length))


def tokens_of(documents: Iterable[str], tokenizer: Tokenizer, most: int) -> tuple[Tokens, Lengths]:
    """The documents' tokens, each document begun by the start token, and the number of their bytes
    that each token stands for, [vocabulary]; no document is read after the first `most` tokens."""
    pieces = []
    count = 0
    size = 0  # bytes of the text
    for document in documents:
        pieces.append(np.concatenate(([tokenizer.start], tokenizer.encode(document))))
        count += len(pieces[-1])
        size += len(document.encode("utf-8", "replace"))
        if count > most:
            break
    tokens = np.concatenate(pieces)
    lengths = tokenizer.lengths()
    return tokens, lengths_in_text(lengths, size, int(lengths[tokens].sum()))


def nats_by_loop(model: Model, prompts: Prompts, loops: int, counted: torch.Tensor) -> Arrays:
    """`nats` [B, loops], float64: of each block's counted tokens [B, n] together, by loop."""
    device = next(model.parameters()).device
    batch = prompts.to(device)
    mask = counted.to(device)
    sums = []
    for loop, (_, logits) in enumerate(model.unroll(batch, loops)):
        if loop:  # the read-in precedes the first loop
            nats = error("next_token", logits, batch.ys)
            sums.append((nats.double() * mask).sum(1))
    return {"nats": torch.stack(sums, dim=1).cpu().numpy()}


def bits_per_byte(nats: Floats, prompts: Prompts, lengths: Lengths) -> Floats:
    """Bits of each block by loop, [blocks, loops], over the mean bytes of a block, so that their
    mean is that of the text. `lengths` are the bytes that each token stands for."""
    size = lengths[prompts.ys.numpy()].sum()
    # The mean over blocks is then Σ nats / (log 2 · Σ bytes).
    return nats * (len(nats) / (max(size, 1) * math.log(2)))


def text_result(
    nats: Floats,
    prompts: Prompts,
    tokenizer: Tokenizer,
    lengths: Lengths,
    settings: EvaluationConfig,
) -> TextScores:
    """The scores of a text's blocks, of which `nats` [blocks, loops] are those of `nats_by_loop`.

    The whole text's nats are those of its words and line ends, as WikiText's perplexity is counted.
    `lengths` are the bytes that each token stands for; those without have no part in it.
    """
    ys = prompts.ys.numpy()
    sizes = lengths[ys]
    # Of each block, [blocks].
    tokens = (sizes > 0).sum(1)
    words = _words(ys, tokenizer)
    size = sizes.sum(1)
    nats_by_token = _ratio(nats, tokens, settings)
    nats_by_word = _ratio(nats, words, settings)
    bits = [values / math.log(2) for values in _ratio(nats, size, settings)]
    return TextScores(
        tokens=int(tokens.sum()),
        bytes=round(float(size.sum())),
        words=int(words.sum()),
        loop=list(range(1, nats.shape[1] + 1)),
        bits_per_byte=Interval(*bits).to_json(),
        nats=nats_by_token.to_json(),
        perplexity=_exp(nats_by_token).to_json(),
        word_perplexity=_exp(nats_by_word).to_json(),
    )


def running_perplexity(nats: Floats, length: int, settings: EvaluationConfig) -> Band:
    """The perplexity of a token, of whatever kind, by loop, in running blocks of `length` tokens
    with these `nats` [blocks, loops]."""
    return _exp(_ratio(nats, np.full(len(nats), length), settings)).to_json()


def _words(blocks: NDArray[np.int64], tokenizer: Tokenizer) -> NDArray[np.int64]:
    """The words and line ends, each of which is a token of WikiText, that begin in each of the
    consecutive blocks [blocks, n]: one that runs on over a block's end counts once."""
    counts = np.zeros(len(blocks), np.int64)
    inside = False  # a word
    for index, block in enumerate(blocks):
        starts = np.flatnonzero(block == tokenizer.start)
        for number, piece in enumerate(np.split(block, starts)):
            inside = inside and not number  # a start token ends it
            text = tokenizer.decode(piece[piece < tokenizer.size].tolist())
            if text:
                continued = inside and not text[0].isspace()
                counts[index] += len(text.split()) - continued + text.count("\n")
                inside = not text[-1].isspace()
    return counts


def _ratio(nats: Floats, units: NDArray[np.number], settings: EvaluationConfig) -> Interval:
    """Nats over units [blocks], both summed over resampled blocks."""
    # In one array, so that the same resamples serve numerators and denominator.
    columns = np.column_stack((nats, units)).astype(np.float64)
    means = resampled_means(columns, settings.resamples, settings.seed)
    with np.errstate(divide="ignore", invalid="ignore"):  # a text without such a unit
        ratios = means[:, :-1] / means[:, -1:]
        low, high = np.percentile(ratios, (5, 95), axis=0)
        return Interval(nats.sum(0) / units.sum(), low, high)


def _exp(interval: Interval) -> Interval:
    # exp(710) is beyond float64, and JSON has no infinity.
    return Interval(*(np.exp(np.minimum(values, 700.0)) for values in interval))
