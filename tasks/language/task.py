"""Prompts from a text: every token is a question, answered from the tokens before it."""

import math
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from looplab.conf.mistakes import ConfigError

from ..data import EXPORT_PREFIX, Data
from ..random_source import RandomSource
from ..task import Prompts, Task, register_task
from .corpus import Corpus, load_corpus
from .documents import eval_files
from .parts import PARTS, Part, Source
from .tokens import Tokenizer, make_tokenizer

_TOKENIZER = "tokenizer.json"


@register_task("language")
@dataclass(frozen=True)
class Language(Task):
    """Sequences of `points` tokens: the start token, then a piece of the text from a random place
    on; with `packing` best_fit a row of whole documents, as far as they fill it (`best_fit` in
    packing.py). `xs` are the tokens, `ys` those after them.

    `text` is a file, a folder or a pattern of plain text, of JSON lines or Parquet with their
    `column` (empty: the novels that come with the project), or a file of tokens as they are, uint16
    (.bin); `tokens` are bytes, bpe (a byte-pair encoding of `vocabulary` tokens, trained on
    the text) or a tokenizer.json; `held_out` is the fraction of the text, by documents, that
    evaluation has for itself, unless `held_out_text` is another text for it; `eval` is a
    folder of further texts for evaluation.
    """

    text: str = ""
    column: str = "text"
    tokens: str = "bytes"
    vocabulary: int = 4096
    held_out: float = 0.1
    held_out_text: str = ""
    eval: str = ""
    packing: Literal["running", "best_fit"] = "running"

    part: ClassVar[Part] = "train"
    is_text: ClassVar[bool] = True
    loss: ClassVar[str] = "next_token"
    baselines: ClassVar[tuple[str, ...]] = ("ngram_5",)

    @property
    def divisor(self) -> float:
        """1: errors are in nats a token."""
        return 1.0

    @cached_property
    def corpus(self) -> Corpus:
        """The text."""
        return load_corpus(Source(*(getattr(self, name) for name in Source._fields)))

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokeniser; the text is not read where it is known without."""
        if self.tokens == "bpe":
            return self.corpus.tokenizer
        return make_tokenizer(self.tokens, self.vocabulary, lambda: ())

    @property
    def data(self) -> Data:
        return _Text(self)

    def for_evaluation(self) -> Task:
        settings = {field.name: getattr(self, field.name) for field in fields(self)}
        return HeldOutLanguage(**settings | {"distinct_prompts": 0, "distinct_functions": 0})

    def parameters(self, random: RandomSource, dims: int) -> Tensor:
        """The place of each prompt in the text, from 0 to 1, float64 [B]: 48 random bits."""
        # Of 24 bits alone a text beyond 16 million tokens would have places that are never drawn.
        draws = random.uniform(2).double()
        return draws[:, 0] + draws[:, 1] * 2.0**-24

    def outputs(self, xs: Tensor, parameters: Any) -> Tensor:
        """Raises ConfigError: a text has no function to ask at other inputs."""
        raise ConfigError(
            "evaluation.shifts", "must be empty: a text has no function to ask at other inputs"
        )

    def prompts(self, parameters: Any, random: RandomSource, points: int, dims: int) -> Prompts:
        places: Tensor = parameters
        if self.packing == "best_fit":
            rows = self.corpus.rows(self.part, places.device, points)
            chosen = rows[(places * len(rows)).long().to(rows.device)].long().to(places.device)
            return Prompts(chosen[:, :-1], chosen[:, 1:])
        stream = self.stream(self.part, places.device, points)
        # Every place from which `points` tokens follow, [B]; `places` are below 1.
        first = (places * (len(stream) - points + 1)).long()
        index = first[:, None] + torch.arange(points, device=places.device)
        ys = stream[index.to(stream.device)].long().to(places.device)
        start = torch.full_like(ys[:, :1], self.tokenizer.start)
        return Prompts(torch.cat((start, ys[:, :-1]), dim=1), ys)

    def summary(self, errors: Tensor, ys: Tensor) -> dict[str, float]:
        sizes = torch.from_numpy(self.corpus.lengths)[ys]  # bytes; 0: not of the text
        # Nats to bits; what stands between documents has no bytes, and its errors do not count.
        bits = float((errors.double() * (sizes > 0)).sum()) / math.log(2)
        return {"bits_per_byte": bits / max(float(sizes.sum()), 1.0)}

    def no_posterior_mean(self) -> str:
        return "the next token of a text has none"

    def stream(self, part: Part, device: torch.device, points: int) -> Tensor:
        """The tokens of a part. Raises ConfigError where they are fewer than `points`."""
        stream = self.corpus.part(part, device)
        if len(stream) < points:
            what = "text" if part == "train" else "held-out text"
            raise ConfigError(
                "task.points", f"is {points}, but the {what} has only {len(stream)} tokens"
            )
        return stream


class _Text(Data):
    """The files of a text and its tokeniser."""

    def __init__(self, task: Language) -> None:
        self.task = task

    @property
    def vocabulary(self) -> int:
        return self.task.tokenizer.vocabulary

    def paths(self) -> dict[str, str]:
        paths = {"text": self.task.text, "held_out_text": self.task.held_out_text}
        return {name: path for name, path in paths.items() if path}

    def identity(self) -> dict[str, str]:
        return self.task.corpus.identity()

    def check(self, points: int = 2) -> None:
        for part in PARTS:
            if self.task.packing == "best_fit":
                self.task.corpus.rows(part, torch.device("cpu"), points)
            else:
                self.task.stream(part, torch.device("cpu"), points)
        eval_files(self.task.eval)

    def describe(self, points: int = 2) -> str:
        corpus = self.task.corpus
        count, held_out = (len(corpus.tokens[part]) for part in PARTS)
        share = f"{held_out / (count + held_out):.0%}"
        if documents := corpus.documents:
            share += f", {documents:,} document{'s' if documents != 1 else ''}"
        line = f"{count:,} tokens to train on; held out are {held_out:,} ({share})"
        size = corpus.bytes
        if abs(corpus.spelled - size) > size / 1000:
            line += f"; bits per byte count the {size:,} bytes of the text there, not the"
            line += f" {corpus.spelled:,} that its tokens spell: the tokeniser normalises it"
        if self.task.packing == "best_fit":
            rows = corpus.rows("train", torch.device("cpu"), points)
            dropped = f"{1 - rows.numel() / count:.0%} of the tokens are dropped"
            line += f"; {len(rows):,} rows of {points + 1} to train on, {dropped}"
        return line

    def is_on_host(self) -> bool:
        return self.task.corpus.is_on_host(self.task.part)

    def kept(self) -> dict[str, str]:
        content = self.task.tokenizer.content()
        return {_TOKENIZER: content} if content else {}

    def settings_in(self, folder: Path) -> dict[str, Any]:
        if self.task.tokens == "bytes":
            return {}  # an export has a tokenizer.json nevertheless
        paths = (folder / f"{EXPORT_PREFIX}{_TOKENIZER}", folder / _TOKENIZER)
        kept = [str(path) for path in paths if path.is_file()]
        return {"tokens": kept[0]} if kept else {}

    def changed(self, folder: Path) -> list[str]:
        tokens = self.task.tokens
        kept = self.settings_in(folder)
        if tokens in ("bytes", "bpe") or not kept or not Path(tokens).is_file():
            return []
        try:
            own = self.task.tokenizer.identity()
            is_same = own == replace(self.task, **kept).tokenizer.identity()
        except ConfigError:  # it is no tokeniser any more
            is_same = False
        return [] if is_same else ["tokens"]


@dataclass(frozen=True)
class HeldOutLanguage(Language):
    """Prompts of the held-out part of the text."""

    name = Language.name
    part: ClassVar[Part] = "held_out"
