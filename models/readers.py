"""Readers say what a model's tokens are, how they are read in, and how predictions are read out:
pairs of numbers, or the tokens of a text.

reader = make_reader(spec)
tokens, layout = reader.tokens(prompts, queries), reader.layout(prompts, queries)
"""

from abc import ABC, abstractmethod
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .queries import SEQUENCE, Layout, Queries, lay_out
from .spec import ModelSpec


class PromptBatch(Protocol):
    """The prompts of a model: inputs [B, n, d] and outputs [B, n]; of a text, tokens [B, n] and the
    tokens after them."""

    @property
    def xs(self) -> Tensor: ...

    @property
    def ys(self) -> Tensor: ...


class Reader(ABC):
    """The base class: what reads prompts of one kind."""

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec

    @abstractmethod
    def read_in(self) -> nn.Module:
        """The uninitialised layer that maps tokens to the width of the model."""

    @abstractmethod
    def read_out(self, read_in: nn.Module) -> nn.Module:
        """The uninitialised layer that maps the last stream to outputs."""

    @abstractmethod
    def tokens(self, prompts: PromptBatch, queries: Queries | None) -> Tensor:
        """The tokens that `read_in` takes, [B, S, …]."""

    @abstractmethod
    def layout(self, prompts: PromptBatch, queries: Queries | None) -> Layout | None:
        """The layout of these tokens; None for pairs without queries."""

    @abstractmethod
    def predictions(self, outputs: Tensor) -> Tensor:
        """The predictions of the outputs of `read_out`, at least in float32."""

    @abstractmethod
    def check(self, prompts: PromptBatch) -> None:
        """Raises ValueError for prompts that the model cannot read."""

    def _check_length(self, length: int, unit: str) -> None:
        if length > self.spec.n_positions:
            raise ValueError(
                f"{length} {unit}, but the model has {self.spec.n_positions} positions"
            )


class PairReader(Reader):
    """Two tokens for each pair, of which prediction i is read at the first. `interleaved`: x₁, y₁,
    x₂, y₂, …, a y padded with zeros to d numbers. `pairs`: (x₁, 0), (x₁, y₁), (x₂, 0), (x₂, y₂), …
    of d + 1 numbers. So no y has to be brought to its x (arXiv 2212.07677, with a query beside each
    pair)."""

    def read_in(self) -> nn.Module:
        return nn.Linear(self.spec.dims + (self.spec.tokens == "pairs"), self.spec.n_embd)

    def read_out(self, read_in: nn.Module) -> nn.Module:
        # The halting logit is the last output, left out by `predictions` (training/halting.py).
        return nn.Linear(self.spec.n_embd, (self.spec.classes or 1) + self.spec.halts)

    def tokens(self, prompts: PromptBatch, queries: Queries | None) -> Tensor:
        """[B, 2n, d], of pairs [B, 2n, d + 1]: that of x_i at 2i, of y_i at 2i + 1; after them the
        queries."""
        xs = prompts.xs
        ys = prompts.ys
        asked = None if queries is None else queries.xs
        if self.spec.tokens == "pairs":
            with_y = torch.cat((xs, ys[..., None]), dim=2)
            xs = F.pad(xs, (0, 1))
            asked = None if asked is None else F.pad(asked, (0, 1))
        else:
            with_y = torch.zeros_like(xs)
            with_y[:, :, 0] = ys
        # [B, n, 2, d] → [B, 2n, d]: x₁, y₁, x₂, y₂, …
        tokens = torch.stack((xs, with_y), dim=2).flatten(1, 2)
        return tokens if asked is None else torch.cat((tokens, asked), dim=1)

    def layout(self, prompts: PromptBatch, queries: Queries | None) -> Layout | None:
        return None if queries is None else lay_out(queries, prompts.xs)

    def predictions(self, outputs: Tensor) -> Tensor:
        outputs = outputs.to(torch.promote_types(outputs.dtype, torch.float32))
        return outputs if self.spec.classes else outputs[..., 0]

    def check(self, prompts: PromptBatch) -> None:
        points, dims = prompts.xs.shape[1:]
        self._check_length(points, "points")
        if dims != self.spec.dims:
            raise ValueError(f"inputs of {dims} dimensions, but the model reads {self.spec.dims}")


class TextReader(Reader):
    """Tokens of a vocabulary, by an embedding; logits of the next token are read at each. Both
    matrices have rows up to a multiple of 64, of which those beyond the vocabulary are not read
    (arXiv 2604.21106 and 2605.18797); with `tied_head` they are one matrix. `softcap` c limits a
    logit l to c · tanh(l / c)."""

    def read_in(self) -> nn.Module:
        return nn.Embedding(self.spec.rows, self.spec.n_embd)

    def read_out(self, read_in: nn.Module) -> nn.Module:
        if self.spec.tied_head:
            assert isinstance(read_in, nn.Embedding)
            return TiedHead(read_in)
        return nn.Linear(self.spec.n_embd, self.spec.rows, bias=False)

    def tokens(self, prompts: PromptBatch, queries: Queries | None) -> Tensor:
        return prompts.xs

    def layout(self, prompts: PromptBatch, queries: Queries | None) -> Layout | None:
        return SEQUENCE

    def predictions(self, outputs: Tensor) -> Tensor:
        logits = outputs[..., : self.spec.vocabulary]
        # Before tanh and the loss, in which bfloat16 has too few bits for differences of logits.
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        cap = self.spec.softcap
        return cap * torch.tanh(logits / cap) if cap else logits

    def check(self, prompts: PromptBatch) -> None:
        if prompts.xs.ndim != 2:
            raise ValueError(f"a language model reads tokens [B, n], got {list(prompts.xs.shape)}")
        self._check_length(prompts.xs.shape[1], "tokens")


class TiedHead(nn.Module):
    """The read-out by the embedding's matrix, without parameters of its own."""

    def __init__(self, embedding: nn.Embedding) -> None:
        super().__init__()
        self._embedding = (embedding,)  # in a tuple, so that it is no module of this one

    @property
    def weight(self) -> Tensor:
        """The embedding's matrix [rows, n_embd]."""
        return self._embedding[0].weight

    def forward(self, x: Tensor) -> Tensor:
        """Logits [..., rows] of x [..., n_embd]."""
        return F.linear(x, self.weight)


def make_reader(spec: ModelSpec) -> Reader:
    """The reader of a model of this shape."""
    return TextReader(spec) if spec.vocabulary else PairReader(spec)
