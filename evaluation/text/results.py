"""The results of language models as plain values, part of evaluation.json."""

from typing import NotRequired, TypedDict

from ..bootstrap import Band


class TextResult(TypedDict):
    """Results of one text: how much of it was read, and by loop (from 1) the bits per byte, the
    nats and the perplexity of a token, and the perplexity of a word, the whole text's nats being
    those of its words and line ends (as WikiText's perplexity is counted). Means with 90 %
    intervals over blocks; special tokens have no bytes and no part in it. Of a text of `task.eval`
    also `running_perplexity`: of a token, special ones too, in blocks without start tokens of their
    own (the protocol of the code of arXiv 2605.18797 for WikiText-2). `solvers`, by label: the bits
    per byte of each solver on the same blocks, one number."""

    tokens: int
    bytes: int
    words: int
    loop: list[int]
    bits_per_byte: Band
    nats: Band
    perplexity: Band
    word_perplexity: Band
    running_perplexity: NotRequired[Band]
    solvers: NotRequired[dict[str, Band]]


class Size(TypedDict):
    """The size of a model: its parameters without embedding and head, those of embedding and head,
    and the FLOPs of training on one token of a whole sequence, with every loop of the last step
    counted and, as the code of arXiv 2605.18797 estimates them, with one."""

    backbone: int
    embedding: int
    flops: float
    flops_of_one_loop: float


class LanguageResult(TypedDict):
    """The model's size; texts by name: the held-out part, and the files of `task.eval`."""

    size: Size
    texts: dict[str, TextResult]
