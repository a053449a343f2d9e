"""n-gram models of a text: the next token by the few before it, from counts of the training part.

nats = ngram(task, prompts, order=5)                     # [B, n]
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from looplab.tasks import Prompts, Task
from looplab.tasks.language import Language

from ..bootstrap import Floats

_Ints = NDArray[np.int64]
_MOST = 2**24  # tokens that are counted, from the beginning of the text


class Counts:
    """The numbers of all sequences of 1 to `order` tokens of a stream."""

    def __init__(self, stream: _Ints, order: int, vocabulary: int) -> None:
        self.vocabulary = vocabulary
        self._grams: list[tuple[_Ints, _Ints]] = []  # of each order: keys, sorted, and counts
        # Of each context: how often it occurs, and how many tokens are seen after it.
        self._contexts: list[tuple[_Ints, _Ints]] = []
        context = np.zeros(len(stream), np.int64)  # the number of the context before each token
        contexts = 1
        for n in range(1, order + 1):
            # A gram of n tokens as one integer: its context's number × vocabulary + its last token.
            grams = context[n - 1 :] * vocabulary + stream[n - 1 :]
            keys, gram, counts = np.unique(grams, return_inverse=True, return_counts=True)
            self._grams.append((keys, counts))
            # By distinct gram, the number of its context: the first n − 1 tokens.
            before = keys // vocabulary
            total = np.bincount(before, weights=counts, minlength=contexts).astype(np.int64)
            self._contexts.append((total, np.bincount(before, minlength=contexts)))
            # A gram that ends at i is the context of the token at i + 1.
            context = np.zeros(len(stream), np.int64)
            context[n:] = gram[:-1]
            contexts = len(keys)

    def probabilities(self, tokens: _Ints, next_tokens: _Ints) -> Floats:
        """The probability [B, n] of each of `next_tokens` [B, n] after the `tokens` [B, n] up to
        its place. All orders are interpolated (Witten and Bell 1991).

        A context h occurs c(h) times, with t(h) different tokens after it. Order n has the weight
        c / (c + t), the orders below the rest; below them all tokens are equal.
        """
        batch, length = tokens.shape
        below = np.full((batch, length), 1.0 / self.vocabulary)  # by the orders below
        rows = np.concatenate((tokens, next_tokens[:, -1:]), axis=1)
        context = np.zeros((batch, length + 1), np.int64)  # of order 1 the empty one
        known = np.ones((batch, length + 1), dtype=bool)
        for (keys, counts), (total, kinds) in zip(self._grams, self._contexts, strict=True):
            gram = context * self.vocabulary + rows
            # An unseen gram gets another one's place: the comparison in the next line tells.
            index = np.searchsorted(keys, gram).clip(max=len(keys) - 1)
            seen = known & (keys[index] == gram)
            # From here on of the next tokens: `c` and `t` of their contexts, 0 for unseen ones.
            count = np.where(seen[:, 1:], counts[index[:, 1:]], 0)
            c = np.where(known[:, 1:], total[context[:, 1:]], 0)
            t = np.where(known[:, 1:], kinds[context[:, 1:]], 0)
            weight = c + t
            mixed = (count + t * below) / np.maximum(weight, 1)
            below = np.where(weight > 0, mixed, below)
            # A gram is the context of the token after it.
            context[:, 1:] = index[:, :-1]
            known[:, 1:] = seen[:, :-1]
            known[:, 0] = False
        return below


def ngram(task: Task, prompts: Prompts, order: int) -> Floats:
    """Nats of each next token [B, n] by an interpolated n-gram model of the text that the task
    trains on; it reads up to `order` - 1 tokens, none of another prompt."""
    assert isinstance(task, Language)
    counts = _counts(task, order)
    return -np.log(counts.probabilities(prompts.xs.numpy(), prompts.ys.numpy()))


@lru_cache(maxsize=2)
def _counts(task: Language, order: int) -> Counts:
    stream = task.corpus.tokens["train"][:_MOST].astype(np.int64)
    return Counts(stream, order, task.data.vocabulary)
