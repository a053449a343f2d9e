"""A tokeniser as the tokenizer.json of `transformers`, with the start token before every text.

tokenizer_file(run.task.tokenizer)
"""

import json
from pathlib import Path

from looplab.tasks.language.tokens import Tokenizer

from ..plain import Fields

_NAME = "<|start|>"
# A byte-pair encoding without pairs, whose tokens are the bytes as GPT-2 writes them, and the start
# token, which a template puts before each text.
_BYTES = Path(__file__).with_name("bytes.json")


def tokenizer_file(tokenizer: Tokenizer) -> Fields:
    """The content of the file: the tokeniser's own, or that of bytes, and the start token, the
    number after all of its tokens."""
    name = _start(tokenizer)
    start = tokenizer.start
    of_bytes: Fields = json.loads(_BYTES.read_text().replace(_NAME, name))
    if not tokenizer.content():
        return of_bytes
    content: Fields = json.loads(tokenizer.content())
    vocabulary = content["model"]["vocab"]
    # The package numbers an added token by the count of tokens, which numbers may leave out.
    if isinstance(vocabulary, dict) and max(vocabulary.values()) == start - 1:
        vocabulary[name] = start
    content["added_tokens"].append(of_bytes["added_tokens"][0] | {"id": start})
    template = of_bytes["post_processor"]
    template["special_tokens"][name]["ids"] = [start]
    content["post_processor"] = template
    return content


def tokenizer_settings(tokenizer: Tokenizer, positions: int) -> Fields:
    """The content of tokenizer_config.json: the start token also ends a text and pads it."""
    names = ("bos_token", "eos_token", "pad_token")
    return dict.fromkeys(names, _start(tokenizer)) | {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "padding_side": "left",
        "model_max_length": positions,
        "model_input_names": ["input_ids", "attention_mask"],
        "clean_up_tokenization_spaces": False,
    }


def _start(tokenizer: Tokenizer) -> str:
    """A name that no other token has."""
    name = _NAME
    while name in tokenizer.content():
        name = f"<{name}>"
    return name
