"""Bits per byte and perplexity against counting by hand, n-gram models against their formula."""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from torch import Generator

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.baselines.ngram import Counts
from looplab.evaluation.text.scores import (
    bits_per_byte,
    blocks,
    nats_by_loop,
    running_blocks,
    running_perplexity,
    text_result,
    tokens_of,
)
from looplab.models import Model, ModelSpec
from looplab.tasks.language.tokens import Bytes

_DOCUMENTS = ["the first text\nof two lines\n", "and a second one, with café"]
_TOKENS, _LENGTHS = tokens_of(_DOCUMENTS, Bytes(), 10**6)
_SETTINGS = EvaluationConfig(resamples=50)


def _model() -> Model:
    spec = ModelSpec(
        dims=1, vocabulary=257, n_embd=16, n_head=2, n_positions=16, block="llama", head_std=0.5
    )
    return Model(spec, Generator().manual_seed(0)).eval()


def test_blocks_are_the_text_once() -> None:
    prompts = blocks(_TOKENS, 256, 8, 10**6, "it")
    whole = [256, *_DOCUMENTS[0].encode(), 256, *_DOCUMENTS[1].encode()]
    assert prompts.ys.flatten().tolist() == whole[: len(whole) // 8 * 8]
    assert (prompts.xs[:, 0] == 256).all()
    assert torch.equal(prompts.xs[:, 1:], prompts.ys[:, :-1])
    assert len(blocks(_TOKENS, 256, 8, 24, "it")) == 3
    with pytest.raises(ConfigError, match=r"task.points is 500, but the text it has only"):
        blocks(_TOKENS, 256, 500, 10**6, "it")


def test_bits_and_perplexities_are_those_of_the_next_tokens() -> None:
    model, tokenizer = _model(), Bytes()
    prompts = blocks(_TOKENS, 256, 8, 10**6, "it")
    counted = torch.from_numpy(_LENGTHS > 0)[prompts.ys]
    nats = nats_by_loop(model, prompts, 3, counted)["nats"]
    result = text_result(nats, prompts, tokenizer, _LENGTHS, _SETTINGS)
    # Of the whole text: blocks cut words.
    read = [bytes(document.encode()) for document in _DOCUMENTS]
    whole = b"\0".join(read)[: 8 * len(prompts) - 1].decode(errors="replace").split("\0")
    words = sum(len(text.split()) + text.count("\n") for text in whole)
    for loop in (1, 2, 3):
        total, bytes_ = 0.0, 0
        for xs, ys in zip(prompts.xs, prompts.ys, strict=True):
            one = type(prompts)(xs[None], ys[None])
            probabilities = model(one, loop)[0, 0].softmax(-1)
            for place, token in enumerate(ys.tolist()):
                if token != 256:
                    total -= math.log(probabilities[place, token])
                    bytes_ += 1
        bits, perplexity = total / math.log(2) / bytes_, math.exp(total / bytes_)
        assert result.bits_per_byte["mean"][loop - 1] == pytest.approx(bits, rel=1e-4)
        assert result.perplexity["mean"][loop - 1] == pytest.approx(perplexity, rel=1e-4)
        word = result.word_perplexity["mean"][loop - 1]
        assert word == pytest.approx(math.exp(min(total / words, 700)), rel=1e-3)
    assert (result.tokens, result.bytes, result.words) == (bytes_, bytes_, words)
    low, high = (result.bits_per_byte[end][2] for end in ("low", "high"))
    assert low is not None
    assert high is not None
    assert low < bits < high


def test_running_blocks_have_no_start_tokens_of_their_own() -> None:
    """arXiv 2605.18797's code on WikiText-2: all tokens in a row, each document's start token among
    them, predicted from what its block has read."""
    model, tokenizer = _model(), Bytes()
    whole = [256, *_DOCUMENTS[0].encode(), 256, *_DOCUMENTS[1].encode()]
    prompts = running_blocks(_TOKENS, 8, 10**6)
    total, count = 0.0, (len(whole) - 1) // 8
    assert len(prompts) == count
    for block in range(count):
        tokens = torch.tensor(whole[8 * block : 8 * block + 9])
        probabilities = model(type(prompts)(tokens[None, :-1], tokens[None, 1:]), 2)[0, 0].softmax(
            -1
        )
        total -= float(probabilities[range(8), tokens[1:]].log().sum())
    everything = torch.ones_like(prompts.ys, dtype=torch.bool)
    running = nats_by_loop(model, prompts, 2, everything)["nats"]
    plain = blocks(_TOKENS, 256, 8, 10**6, "it")
    nats = nats_by_loop(model, plain, 2, torch.from_numpy(_LENGTHS > 0)[plain.ys])["nats"]
    result = text_result(nats, plain, tokenizer, _LENGTHS, _SETTINGS)
    wanted = math.exp(total / (8 * count))
    found = running_perplexity(running, 8, _SETTINGS)
    assert found["mean"][1] == pytest.approx(wanted, rel=1e-4)
    assert bits_per_byte(nats, plain, _LENGTHS).mean(0).tolist() == pytest.approx(
        result.bits_per_byte["mean"]
    )
    assert len(running_blocks(_TOKENS, 500, 10**6)) == 0
    assert len(running_blocks(_TOKENS, 8, 16)) == 2


def _by_hand(stream: list[int], before: list[int], token: int, order: int, size: int) -> float:
    """Witten and Bell's interpolation, by looking through the whole stream."""
    found = 1 / size
    for n in range(order):
        context = before[len(before) - n :] if n else []
        if len(context) < n:
            break
        after = Counter(
            stream[i + n] for i in range(len(stream) - n) if stream[i : i + n] == context
        )
        if not after:
            break
        found = (after[token] + len(after) * found) / (after.total() + len(after))
    return found


def test_an_ngram_model_is_its_formula() -> None:
    chance = np.random.default_rng(0)
    stream = chance.integers(0, 4, 300)
    counts = Counts(stream, order=3, vocabulary=5)
    rows = chance.integers(0, 5, (4, 12))
    found = counts.probabilities(rows[:, :-1], rows[:, 1:])
    for row, values in zip(rows.tolist(), found, strict=True):
        for place, value in enumerate(values):
            expected = _by_hand(stream.tolist(), row[: place + 1], row[place + 1], 3, 5)
            assert value == pytest.approx(expected, rel=1e-9)
    every = [
        counts.probabilities(rows[:1, :-1], np.append(rows[:1, 1:-1], [[token]], axis=1))[0, -1]
        for token in range(5)
    ]
    assert sum(every) == pytest.approx(1)
