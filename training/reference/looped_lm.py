"""A checkpoint of github.com/kschwethelm/looped-lm-scaling (arXiv 2604.21106): the settings in its
meta_<step>.json, and its weights as our model has them.

settings = looped_lm_settings(Path("s20/model_003646.pt"))
weights = looped_lm_weights(read_reference(tensors).weights, config, tokenizer)
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from looplab.conf.mistakes import ConfigError, RunError, one_line
from looplab.conf.schema import Config
from looplab.tasks.language.tokens import Tokenizer

_RENAMED = {
    **{"vocab_size": "task.vocabulary", "sequence_len": "model.n_positions"},
    **{"n_head": "model.n_head", "n_prelude": "model.prelude", "n_coda": "model.coda"},
    **{"logit_softcap": "model.softcap", "num_recur": "loops.b"},
}
_INJECTIONS = {
    **{"inject_init_prelude": "concat", "passthrough": "none", "additive": "add"},
    "hyperconnect": "none",  # it has lanes
}


def looped_lm_settings(checkpoint: Path) -> dict[str, Any]:
    """Our settings by key (`task` and `model` by name) in the meta_<step>.json beside a checkpoint.
    Raises RunError where it is absent or damaged, or has an injection without a counterpart."""
    path = checkpoint.with_name(checkpoint.name.replace("model", "meta", 1)).with_suffix(".json")
    try:
        options = json.loads(path.read_text(encoding="utf-8"))["model_config"]
        settings = {ours: options[theirs] for theirs, ours in _RENAMED.items()}
        injection, n_kv, lanes, reach = (
            options[name] for name in ("input_injection", "n_kv_head", "num_lanes", "bptt_k")
        )
        settings["model.injection"] = _INJECTIONS[injection]
        settings["loops.grad_loops"] = min(reach or settings["loops.b"], settings["loops.b"])
    except (OSError, ValueError, TypeError, LookupError) as error:
        raise RunError(f"{path} cannot be read, or is not the code's: {one_line(error)}") from None
    if injection == "hyperconnect":
        settings["model.lanes"] = lanes
    if n_kv != settings["model.n_head"]:
        settings |= {"model.attention": "grouped", "model.n_kv": n_kv}
    settings |= {"task": "language", "task.points": settings["model.n_positions"]}
    settings |= {"model": "looped", "model.block": "relu2", "loops.T": 1}
    return settings | {"curriculum.loops.start": settings["loops.b"]}


def looped_lm_weights(
    weights: Mapping[str, Tensor], config: Config, tokenizer: Tokenizer
) -> dict[str, Tensor]:
    """The weights, by our names, as our model has them.

    Rotations turn the other way there, so that the halves of each head of queries and keys change
    places. So do <s>, which begins documents there, and the last token, which pretraining there
    has never seen and which is our start token. Raises ConfigError for a tokeniser of another size
    or without <s>, RuntimeError or IndexError for weights of other shapes.
    """
    vocabulary, start = config.task.settings["vocabulary"], tokenizer.start
    if tokenizer.vocabulary != vocabulary:
        problem = f"has {start:,} tokens, and this model needs {vocabulary - 1:,}"
        raise ConfigError("task.tokens", f"{problem}: all of its own but the last")
    begin = begin_token(tokenizer, "<s>")
    size, found = config.model.n_embd // config.model.n_head, dict(weights)
    values = size * (config.model.n_kv or config.model.n_head)  # rows
    for name, tensor in weights.items():
        if name.endswith("qkv.weight"):
            turned = tensor[:-values].unflatten(0, (-1, 2, size // 2)).flip(1).flatten(0, 2)
            found[name] = torch.cat((turned, tensor[-values:]))
        elif name in ("read_in.weight", "read_out.weight"):
            found[name] = tensor.clone()
            found[name][[begin, start]] = tensor[[start, begin]]
    return found


def begin_token(tokenizer: Tokenizer, name: str) -> int:
    """The number of the token that begins a model's documents. Raises ConfigError for a tokeniser
    without it."""
    added = json.loads(tokenizer.content() or "{}").get("added_tokens", ())
    for each in added:
        if each["content"] == name:
            return int(each["id"])
    raise ConfigError("task.tokens", f"has no {name}, which begins the documents of this model")
