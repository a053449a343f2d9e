"""Checkpoints of texts, of github.com/kschwethelm/looped-lm-scaling (arXiv 2604.21106) and of
github.com/seal-rg/recurrent-pretraining (Huginn, arXiv 2502.05171): the settings in a file beside
each, and its weights as our model has them.

settings = huginn_settings(Path("huginn-0125/model.safetensors"))
weights = huginn_weights(read_reference(tensors).weights, config, tokenizer)
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from looplab.conf.mistakes import ConfigError, RunError, one_line
from looplab.conf.schema import Config
from looplab.models.blocks.parameters import padded_vocabulary
from looplab.tasks.language.tokens import Tokenizer

_OF_LOOPED_LM = {
    "vocab_size": "task.vocabulary",
    "sequence_len": "model.n_positions",
    "n_head": "model.n_head",
    "n_prelude": "model.prelude",
    "n_coda": "model.coda",
    "logit_softcap": "model.softcap",
    "num_recur": "loops.b",
}
_INJECTIONS = {
    "inject_init_prelude": "concat",
    "passthrough": "none",
    "additive": "add",
    "hyperconnect": "none",  # it has lanes
}
_OF_HUGINN = {
    "block_size": "model.n_positions",
    "n_heads": "model.n_head",
    "rope_base": "model.rope_base",
    "intermediate_size": "model.n_hidden",
    "mean_recurrence": "loops.b",
    "n_layers_in_prelude": "model.prelude",
    "n_layers_in_coda": "model.coda",
}


def looped_lm_settings(checkpoint: Path) -> dict[str, Any]:
    """Our settings by key (`task` and `model` by name) in the meta_<step>.json beside a checkpoint.
    Raises RunError where it is absent or damaged, or has an injection without a counterpart."""
    path = checkpoint.with_name(checkpoint.name.replace("model", "meta", 1)).with_suffix(".json")
    try:
        options = json.loads(path.read_text(encoding="utf-8"))["model_config"]
        settings = {ours: options[theirs] for theirs, ours in _OF_LOOPED_LM.items()}
        injection, n_kv, lanes, reach = (
            options[name] for name in ("input_injection", "n_kv_head", "num_lanes", "bptt_k")
        )
        settings["model.injection"] = _INJECTIONS[injection]
        # No number there means all loops.
        settings["loops.grad_loops"] = min(reach or settings["loops.b"], settings["loops.b"])
    except (OSError, ValueError, TypeError, LookupError) as error:
        raise RunError(f"{path} cannot be read, or is not the code's: {one_line(error)}") from None
    if injection == "hyperconnect":
        settings["model.lanes"] = lanes
    if n_kv != settings["model.n_head"]:
        settings |= {"model.attention": "grouped", "model.n_kv": n_kv}
    return settings | {
        "task": "language",
        "task.points": settings["model.n_positions"],
        "model": "looped",
        "model.block": "relu2",
        "loops.T": 1,
        "curriculum.loops.start": settings["loops.b"],
    }


def looped_lm_weights(
    weights: Mapping[str, Tensor], config: Config, tokenizer: Tokenizer
) -> dict[str, Tensor]:
    """The weights, by our names, as our model has them.

    Rotations turn the other way there, so that the halves of each head of queries and keys change
    places. So do <s>, which begins documents there, and the last token, which pretraining there
    has never seen and which is our start token. Raises ConfigError for a tokeniser of another size
    or without <s>, RuntimeError or IndexError for weights of other shapes.
    """
    vocabulary = config.task.settings["vocabulary"]
    start = tokenizer.start
    if tokenizer.vocabulary != vocabulary:
        problem = f"has {start:,} tokens, and this model needs {vocabulary - 1:,}"
        raise ConfigError("task.tokens", f"{problem}: all of its own but the last")
    begin = begin_token(tokenizer, "<s>")
    size = config.model.n_embd // config.model.n_head
    renamed = dict(weights)
    values = size * (config.model.n_kv or config.model.n_head)  # rows
    for name, tensor in weights.items():
        if name.endswith("qkv.weight"):
            # Swaps the halves of queries and keys, [heads, 2, size / 2, D]: −θ becomes θ.
            turned = tensor[:-values].unflatten(0, (-1, 2, size // 2)).flip(1).flatten(0, 2)
            renamed[name] = torch.cat((turned, tensor[-values:]))
        elif name in ("read_in.weight", "read_out.weight"):
            renamed[name] = tensor.clone()
            renamed[name][[begin, start]] = tensor[[start, begin]]
    return renamed


def begin_token(tokenizer: Tokenizer, name: str) -> int:
    """The number of the token that begins a model's documents. Raises ConfigError for a tokeniser
    without it."""
    added = json.loads(tokenizer.content() or "{}").get("added_tokens", ())
    numbers: dict[str, int] = {token["content"]: token["id"] for token in added}
    if name not in numbers:
        raise ConfigError("task.tokens", f"has no {name}, which begins the documents of this model")
    return numbers[name]


def huginn_settings(checkpoint: Path) -> dict[str, Any]:
    """Our settings by key (`task` and `model` by name) in the config.json beside a checkpoint.
    Raises RunError where it is absent or damaged, or has an option without a counterpart."""
    path = checkpoint.with_name("config.json")
    try:
        options = {"rope_base": 50_000} | json.loads(path.read_text(encoding="utf-8"))
        if options["norm_eps"] != 1e-6 or not options["tie_embeddings"]:
            raise ValueError("norm_eps must be 1e-6 and tie_embeddings true")
        settings = {ours: options[theirs] for theirs, ours in _OF_HUGINN.items()}
        settings["task.vocabulary"] = options["vocab_size"] + 1
        settings["loops.grad_loops"] = min(options["mean_backprop_depth"], settings["loops.b"])
    except (OSError, ValueError, TypeError, LookupError) as error:
        raise RunError(f"{path} cannot be read, or is not the code's: {one_line(error)}") from None
    return settings | {
        "task": "language",
        "task.points": settings["model.n_positions"],
        "model": "looped",
        "model.block": "sandwich",
        "model.tied_head": True,
        "model.injection": "concat",
        "model.norm": "at_readout",
        "loops.T": 1,
        "loops.sampling": "poisson_lognormal",
        "curriculum.loops.start": settings["loops.b"],
    }


def huginn_weights(
    weights: Mapping[str, Tensor], config: Config, tokenizer: Tokenizer
) -> dict[str, Tensor]:
    """The weights, by our names, as our model has them.

    Rotated pairs of numbers are neighbours there, halves of a head here. The projection reads state
    and prompt in the other order. The norm before the coda and that before the head, one there, are
    two here. The embedding, which is multiplied by √n_embd there, is stored so here. The head is
    the same matrix: the last norm's gain is divided by √n_embd. Our start token comes after all of
    theirs, with the row of <|begin_text|>. That one has the row of their last token, which
    pretraining has hardly seen. Raises ConfigError for a tokeniser of another size or without
    <|begin_text|>, RuntimeError for weights of other shapes.
    """
    n_embd = config.model.n_embd
    start = config.task.settings["vocabulary"] - 1
    if tokenizer.size != start:
        raise ConfigError("task.tokens", f"must have {start:,} tokens, got {tokenizer.size:,}")
    begin = begin_token(tokenizer, "<|begin_text|>")
    pairs = n_embd // config.model.n_head // 2
    renamed = dict(weights)
    for name, tensor in weights.items():
        if name.endswith("qkv.weight"):
            # [heads, size / 2, 2, D] → [heads, 2, size / 2, D]: neighbours go to the two halves.
            qk = tensor[: 2 * n_embd].unflatten(0, (-1, pairs, 2)).transpose(1, 2).flatten(0, 2)
            renamed[name] = torch.cat((qk, tensor[2 * n_embd :]))
        elif name.endswith("qk_bias"):
            renamed[name] = tensor.reshape(-1, pairs, 2).transpose(1, 2).flatten(1)
        elif name == "loop.inject.weight":
            # Columns for (s, e) become columns for (e, s).
            renamed[name] = tensor.roll(n_embd, 1)
        elif name == "loop.norm.weight":
            renamed |= {"loop.norm_coda.weight": tensor, name: tensor / math.sqrt(n_embd)}
        elif name == "read_in.weight":
            rows = tensor.new_zeros(padded_vocabulary(start + 1), n_embd)
            rows[:start] = tensor[:start] * math.sqrt(n_embd)
            rows[start] = rows[begin]
            rows[begin] = rows[start - 1]
            renamed[name] = rows
    return renamed
