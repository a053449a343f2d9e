"""A tokeniser as the tokenizer.json of `transformers`, with the start token before every text.

tokenizer_file(run.task.tokenizer)
"""

import json
from typing import Any

from looplab.tasks.language.tokens import Tokenizer

# GPT-2 writes bytes that are no printable characters as those from number 256 on.
_PRINTABLE = (*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100))


def tokenizer_file(tokenizer: Tokenizer) -> dict[str, Any]:
    """The content of the file: the tokeniser's own, or that of bytes, and the start token, the
    number after all of its tokens."""
    content = json.loads(tokenizer.content()) if tokenizer.content() else _bytes()
    vocabulary = content["model"]["vocab"]
    name, start = _start(tokenizer), tokenizer.start
    # The package numbers an added token by the count of tokens, which numbers may leave out.
    if isinstance(vocabulary, dict) and max(vocabulary.values()) == start - 1:
        vocabulary[name] = start
    added = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    content["added_tokens"].append({"id": start, "content": name, "special": True} | added)
    first = {"SpecialToken": {"id": name, "type_id": 0}}
    text = {"Sequence": {"id": "A", "type_id": 0}}
    second_text = {"Sequence": {"id": "B", "type_id": 0}}
    content["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [first, text],
        "pair": [first, text, second_text],
        "special_tokens": {name: {"id": name, "ids": [start], "tokens": [name]}},
    }
    return content


def tokenizer_settings(tokenizer: Tokenizer, positions: int) -> dict[str, Any]:
    """The content of tokenizer_config.json: the start token also ends a text and pads it."""
    names = ("bos_token", "eos_token", "pad_token")
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **dict.fromkeys(names, _start(tokenizer)),
        "padding_side": "left",
        "model_max_length": positions,
        "model_input_names": ["input_ids", "attention_mask"],
        "clean_up_tokenization_spaces": False,
    }


def _start(tokenizer: Tokenizer) -> str:
    """A name that no other token has."""
    name = "<|start|>"
    while name in tokenizer.content():
        name = f"<{name}>"
    return name


def _bytes() -> dict[str, Any]:
    """A byte-pair encoding without pairs."""
    others = [byte for byte in range(256) if byte not in _PRINTABLE]
    characters = {byte: chr(byte) for byte in _PRINTABLE}
    characters |= {byte: chr(256 + count) for count, byte in enumerate(others)}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False}
    byte_level["use_regex"] = False
    vocabulary = {characters[byte]: byte for byte in range(256)}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    }
