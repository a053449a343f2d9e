"""Language models in EleutherAI's lm-evaluation-harness, as its model `looplab`. It needs the
package lm_eval, which is optional.

python -m looplab lm_eval --model looplab --model_args run=runs/NAME,loops=8 --tasks piqa,hellaswag

results = lm_eval.simple_evaluate(LooplabLM(run="runs/NAME", loops=8), tasks=["piqa"])
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import MISSING, dataclass
from itertools import islice
from typing import Any

import torch
from lm_eval.api.instance import Instance
from lm_eval.api.model import TemplateLM
from lm_eval.api.registry import register_model
from lm_eval.models.utils import normalize_gen_kwargs
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window
from tqdm import tqdm

from looplab.conf.mistakes import ConfigError, check_device
from looplab.conf.setting import check_settings, setting
from looplab.conf.words import settings_from_words

from .load import load_run
from .plain import Fields
from .text.language_model import continuation, language_model
from .text.settings import Generation

_NEW_TOKENS = 256  # where a task does not say how many; as the harness has it for its own models
_KNOWN = {"until", "max_gen_toks", "do_sample", "temperature"}  # settings of a generation
_OF_DRAWS = {"top_p", "top_k", "min_p"}  # which do not bear on the likeliest token
_AUTO_TOKENS = 2**13  # of a batch, whose logits are its largest tensor


def check_batch_size(key: str, value: str) -> None:
    """Raises ConfigError for what is neither a number from 1 on nor `auto`, as the harness has it:
    `auto:4` there looks for the largest size four times."""
    if not re.fullmatch(r"auto(:[0-9]+)?|[1-9][0-9]*", value):
        raise ConfigError(key, f"must be auto or a whole number from 1 on, got {value!r}")


@dataclass(frozen=True)
class LooplabArguments:
    """The model's arguments in the harness."""

    run: str = setting(MISSING, "a run folder, shipped/NAME or an exported model")
    loops: int | None = setting(None, "loops; null: b, as trained", at_least=1)
    shared: bool = setting(False, "generation: whether all loops read the last loop's keys")
    batch_size: str = setting(
        "1", "rows of a batch of log-likelihoods; auto: by the positions", check=check_batch_size
    )
    max_batch_size: int = setting(64, "the most that auto takes", at_least=1)
    device: str = setting("auto", "auto, cpu, cuda or cuda:1", check=check_device)


@register_model("looplab")
class LooplabLM(TemplateLM):
    """A language model of a run, with `LooplabArguments`. Every text that it reads begins with the
    start token of its training, once. Raises ConfigError for arguments that it does not know, and
    for a run that is no language model."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__()
        if arguments.get("device") == "cuda:0":  # the harness's default, on every machine
            del arguments["device"]
        words = [f"{key}={value}" for key, value in arguments.items() if value is not None]
        self._arguments = settings_from_words(LooplabArguments, words)
        check_settings("", self._arguments)
        run = load_run(self._arguments.run)
        self._model = language_model(run, self._arguments.loops, self._arguments.device)
        self._device = next(self._model.model.parameters()).device

    @classmethod
    def create_from_arg_obj(
        cls, arg_dict: Fields, additional_config: Fields | None = None
    ) -> LooplabLM:
        """The model of `--model_args`, which win over options of their names."""
        return cls(**((additional_config or {}) | arg_dict))

    @property
    def batch_size(self) -> int:
        """The rows of a batch of log-likelihoods."""
        if self._arguments.batch_size.isdecimal():
            return int(self._arguments.batch_size)
        return min(max(_AUTO_TOKENS // self._model.positions, 1), self._arguments.max_batch_size)

    @property
    def tokenizer_name(self) -> str:
        """A name that tokenisers share only where their tokens are the same."""
        return self._model.tokenizer.identity()

    def chat_template(self, chat_template: bool | str = False) -> str:
        """None. Raises ConfigError where one is asked for."""
        if chat_template:
            raise ConfigError("apply_chat_template", "cannot be: the model has no chat template")
        return ""

    def apply_chat_template(self, *_: Any, **__: Any) -> str:
        """Raises ConfigError."""
        return self.chat_template(True)

    @property
    def eot_token_id(self) -> int:
        """The start token, which also ends the document before."""
        return self._model.tokenizer.start

    def tok_encode(self, string: str, *_: Any, **__: Any) -> list[int]:
        """The tokens of a text, without the start token that `LanguageModel` sets before them."""
        tokens: list[int] = self._model.tokenizer.encode(string).tolist()
        return tokens

    def _loglikelihood_tokens(
        self, requests: Sequence[tuple[Any, list[int], list[int]]], **_: Any
    ) -> list[tuple[float, bool]]:
        """The log-likelihood in nats of each continuation, and whether it is what greedy decoding
        gives. A text longer than the positions loses its beginning."""
        start = self.eot_token_id  # which the harness gives as the context of a whole text
        pairs = []
        for _, before, tokens in requests:
            begins_there = before[:1] == [start]
            pairs.append((before[1:] if begins_there else before, tokens))
        scores = self._model.score(pairs, self.batch_size)
        if cut := sum(score.cut for score in scores):
            log = logging.getLogger(__name__)
            log.warning("%s of %s texts are too long, and cut at the front", cut, len(scores))
        return [(-score.nats, score.exact) for score in scores]

    def loglikelihood_rolling(
        self, requests: Sequence[Instance], disable_tqdm: bool = False
    ) -> list[float]:
        """The log-likelihood in nats of each whole text, in windows as the harness cuts them, each
        after a start token."""
        length = self._model.positions - 1
        sums = list[float]()
        for request in tqdm(requests, disable=disable_tqdm or None):
            tokens = self.tok_encode(request.args[0])
            cuts = get_rolling_token_windows(tokens, self.eot_token_id, length, context_len=1)
            windows = [("", *make_disjoint_window(cut)) for cut in cuts]
            sums.append(sum(value for value, _ in self._loglikelihood_tokens(windows)))
        return sums

    def generate_until(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> list[str]:
        """The continuation of each text up to a stop sequence, which it leaves out, a start token
        or its most tokens. One text after another: their keys and values differ in length. Draws
        begin with the seed that the harness has set (`--seed`)."""
        shown = tqdm(requests, disable=disable_tqdm or None)
        # The harness seeds torch's global generator; each text draws from a generator of its own.
        first = torch.initial_seed() % 2**32
        return [
            self._written(request.args[0], request.args[1], first + number)
            for number, request in enumerate(shown)
        ]

    def _written(self, context: str, options: Fields, seed: int) -> str:
        asked = normalize_gen_kwargs(options, _NEW_TOKENS)
        known = _KNOWN if asked["do_sample"] else _KNOWN | _OF_DRAWS
        if asked.get("num_beams") == 1:
            del asked["num_beams"]
        if others := sorted(asked.keys() - known):
            names = ", ".join(sorted(_KNOWN))
            raise ConfigError("gen_kwargs", f"cannot have {others[0]}: the model has {names}")
        temperature = asked.get("temperature", 1.0) if asked["do_sample"] else 0.0
        settings = Generation(temperature=temperature, seed=seed, shared=self._arguments.shared)
        most = asked["max_gen_toks"]
        positions = self._model.positions
        # Of a long context the last tokens, with room for the new ones in up to half the positions.
        room = max(positions - most, positions // 2)
        tokens = self.tok_encode(context)[-(room - 1) :]
        count = len(tokens)
        text = ""
        first = [self.eot_token_id, *tokens]
        for token in islice(self._model.continued(first, settings), most):
            if token == self.eot_token_id:
                break
            tokens.append(token)
            text = continuation(self._model.tokenizer, tokens, count)
            if ends := [text.find(stop) for stop in asked["until"] if stop and stop in text]:
                return text[: min(ends)]
        return text
