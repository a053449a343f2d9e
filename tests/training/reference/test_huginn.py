"""Checkpoints of seal-rg/recurrent-pretraining: logits are those of its model, written here from
arXiv 2502.05171 and tensors by its names; and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor

from looplab.conf.mistakes import ConfigError, RunError
from looplab.evaluation.load import load_run
from looplab.models.operations import Cache
from looplab.tasks import Prompts
from looplab.tasks.language import Language
from looplab.tasks.language.tokens import make_tokenizer
from looplab.training import Run, import_checkpoint

package = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
_WIDTH, _HEADS, _HIDDEN, _LAYERS = 16, 2, 28, {"prelude": 2, "core_block": 3, "coda": 2}
_SIZE = _WIDTH // _HEADS
_TEXT = "the cat sat on the mat and saw the bat.\n"
_TOKENS, _BEGIN = 260, 257  # of the tokeniser; <|begin_text|> among them


def _options(**changes: Any) -> dict[str, Any]:
    options = {
        **{"block_size": 24, "n_heads": _HEADS, "n_embd": _WIDTH, "intermediate_size": _HIDDEN},
        **{"n_layers_in_prelude": 2, "n_layers_in_recurrent_block": 3, "n_layers_in_coda": 2},
        **{"mean_recurrence": 4, "mean_backprop_depth": 2, "vocab_size": _TOKENS},
        **{"norm_eps": 1e-6, "tie_embeddings": True, "qk_bias": True, "rope_base": 500.0},
    }
    return options | changes


def _weights() -> dict[str, Tensor]:
    """Random tensors by the code's names."""
    shapes: dict[str, tuple[int, ...]] = {
        **{"transformer.wte.weight": (_TOKENS, _WIDTH), "transformer.ln_f.weight": (_WIDTH,)},
        **{"transformer.adapter.weight": (_WIDTH, 2 * _WIDTH)},
    }
    for stack, layers in _LAYERS.items():
        for layer in range(layers):
            block = f"transformer.{stack}.{layer}"
            shapes |= {f"{block}.norm_{number}.weight": (_WIDTH,) for number in (1, 2, 3, 4)}
            shapes |= {f"{block}.attn.Wqkv.weight": (3 * _WIDTH, _WIDTH)}
            shapes |= {f"{block}.attn.qk_bias": (2, 1, _HEADS, _SIZE)}
            shapes |= {f"{block}.attn.proj.weight": (_WIDTH, _WIDTH)}
            shapes |= {f"{block}.mlp.fc.weight": (2 * _HIDDEN, _WIDTH)}
            shapes |= {f"{block}.mlp.proj.weight": (_WIDTH, _HIDDEN)}
    generator = torch.Generator().manual_seed(0)
    drawn = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    return {
        name: each / each.shape[-1] ** 0.5 if each.ndim == 2 else 1 + each / 2
        for name, each in drawn.items()
    }


def _normed(x: Tensor, gain: Tensor) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * gain


def _turned(heads: Tensor) -> Tensor:
    """Heads [S, heads, size], of which numbers 2i and 2i + 1 are a complex number that turns by
    position · 500^(-2i / size)."""
    pairs = torch.view_as_complex(heads.unflatten(-1, (-1, 2)).contiguous())
    speeds = 500 ** (-torch.arange(0, _SIZE, 2, dtype=torch.float64) / _SIZE)
    angles = torch.arange(len(heads), dtype=torch.float64)[:, None, None] * speeds
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


def _block(x: Tensor, weights: dict[str, Tensor], name: str) -> Tensor:
    gains = [weights[f"{name}.norm_{number}.weight"] for number in (1, 2, 3, 4)]
    read = _normed(x, gains[0]) @ weights[f"{name}.attn.Wqkv.weight"].T
    query, key, value = read.unflatten(-1, (3, _HEADS, _SIZE)).unbind(1)
    query, key = (
        _turned(heads + bias).transpose(0, 1)
        for heads, bias in zip((query, key), weights[f"{name}.attn.qk_bias"], strict=True)
    )
    scores = (query @ key.mT / _SIZE**0.5).masked_fill(
        torch.ones(len(x), len(x)).triu(1).bool(), -torch.inf
    )
    mixed = (scores.softmax(-1) @ value.transpose(0, 1)).transpose(0, 1).flatten(1)
    x = _normed(x + mixed @ weights[f"{name}.attn.proj.weight"].T, gains[1])
    gate, hidden = (_normed(x, gains[2]) @ weights[f"{name}.mlp.fc.weight"].T).chunk(2, dim=-1)
    hidden = gate * gate.sigmoid() * hidden
    return _normed(x + hidden @ weights[f"{name}.mlp.proj.weight"].T, gains[3])


def _stack(x: Tensor, weights: dict[str, Tensor], stack: str) -> Tensor:
    for layer in range(_LAYERS[stack]):
        x = _block(x, weights, f"transformer.{stack}.{layer}")
    return x


def _logits(tokens: list[int], weights: dict[str, Tensor], loops: int) -> Tensor:
    """[S, vocabulary], from the state 0."""
    embedding, gain = weights["transformer.wte.weight"], weights["transformer.ln_f.weight"]
    e = _stack(embedding[tokens] * _WIDTH**0.5, weights, "prelude")
    s = 0 * e
    for _ in range(loops):
        both = torch.cat((s, e), dim=-1)
        s = _stack(both @ weights["transformer.adapter.weight"].T, weights, "core_block")
    return _normed(_stack(_normed(s, gain), weights, "coda"), gain) @ embedding.T


@pytest.fixture(autouse=True)
def in_a_folder_with_a_text_and_a_tokeniser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("<|endoftext|>\n".join([_TEXT * 20] * 10))
    for name, begin in (("tokenizer", "<|begin_text|>"), ("without", "<s>")):
        content = make_tokenizer("bpe", _BEGIN + 1, lambda: [_TEXT]).content()
        tokenizer = package.Tokenizer.from_str(content)
        tokenizer.add_special_tokens([begin, "<|end_text|>", "<|unused|>"])
        tokenizer.save(f"{name}.json")


def _saved(weights: dict[str, Tensor], options: dict[str, Any]) -> Path:
    safetensors.torch.save_file(weights, "model.safetensors")
    Path("config.json").write_text(json.dumps(options))
    return Path("model.safetensors")


def _imported(path: Path, **given: str) -> Run:
    settings = {"task.text": "text.txt", "task.tokens": "tokenizer.json", "training.steps": 7}
    return import_checkpoint(path, settings | {f"task.{key}": each for key, each in given.items()})


def test_logits_are_those_of_its_model() -> None:
    """For any number of loops, at once and token by token; those of <|begin_text|>, which begins
    the documents, are our start token's. In float64: random loops amplify what is rounded."""
    weights = _weights()
    angles = {"freqs_cis": torch.ones(1, 24, 1, _SIZE // 2, 2)}  # the head is saved with others
    head = {"lm_head.weight": weights["transformer.wte.weight"].clone()}
    run = load_run(_imported(_saved(weights | angles | head, _options())).path)
    assert isinstance(run.task, Language)
    start = run.task.tokenizer.start
    assert (run.step, run.config.loops.b, run.config.loops.grad_loops, start) == (7, 4, 2, _TOKENS)
    assert run.model.spec.tied_head
    model, exact = run.model.double(), {name: each.double() for name, each in weights.items()}
    text = run.task.tokenizer.encode(_TEXT).tolist()[:20]
    ours = torch.tensor([[start, *text[:9], start, *text[9:]]])
    for loops in (1, 4, 7):
        found = model(Prompts(ours, ours), loops)[-1, 0]
        expected = _logits([_BEGIN, *text[:9], _BEGIN, *text[9:]], exact, loops)
        assert expected.abs().max() > 1
        expected = torch.cat((expected, expected[:, [_BEGIN]]), dim=-1)
        expected[:, _BEGIN] = expected[:, _TOKENS - 1]  # that of the last token
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)
        cache = Cache()
        parts = [model.continue_text(part, loops, cache) for part in ours.split(8, dim=1)]
        torch.testing.assert_close(torch.cat(parts, dim=1)[0], found, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("options", "given", "message"),
    [
        ({}, {"tokens": "bytes"}, "task.tokens must have 260 tokens, got 256"),
        ({}, {"tokens": "without.json"}, r"task.tokens has no <\|begin_text\|>, which begins"),
        ({"n_layers_in_coda": 1}, {}, "does not fit its configuration"),
        ({"norm_eps": 1e-5}, {}, "not the code's: norm_eps must be 1e-6 and tie_embeddings true"),
        ({"mean_recurrence": "many"}, {}, "config.json cannot be read, or is not the code's"),
        ({"n_heads": 16}, {}, "model.n_head leaves heads of 1 numbers"),
    ],
)
def test_what_does_not_fit_is_one_line(
    options: dict[str, Any], given: dict[str, str], message: str
) -> None:
    path = _saved(_weights(), _options(**options))
    with pytest.raises((ConfigError, RunError), match=message) as error:
        _imported(path, **given)
    assert "\n" not in str(error.value)
    assert not Path("runs").exists()


def test_other_tensors_and_no_config_are_refused() -> None:
    weights = _weights()
    block, word = "transformer.core_block.1", "transformer.wte.weight"
    for changed, message in (
        (weights | {"transformer.adapter.bias": torch.ones(3)}, "Unexpected key"),
        ({k: v for k, v in weights.items() if "qk_bias" not in k}, "Missing key"),
        (weights | {f"{block}.attn.qk_bias": torch.ones(5)}, "invalid for input of size 5"),
        (weights | {word: torch.ones(4, _WIDTH)}, "must match"),
    ):
        with pytest.raises(RunError, match=message) as error:
            _imported(_saved(changed, _options()))
        assert "\n" not in str(error.value)
    Path("config.json").unlink()
    with pytest.raises(RunError, match=r"config\.json cannot be read"):
        _imported(Path("model.safetensors"))
