"""Checkpoints of texts, of kschwethelm/looped-lm-scaling and of seal-rg/recurrent-pretraining:
logits are those of their models, written here from arXiv 2604.21106 and arXiv 2502.05171 and
tensors by their names; and what is refused."""

import json
from collections.abc import Mapping
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
_WIDTH, _HEADS = 16, 2
_SIZE = _WIDTH // _HEADS
_TEXT = "the cat sat on the mat and saw the bat.\n"
_LM_BEGIN = 264  # <s>, the last token of its tokeniser
_LM_SAID = {"task.tokens": "looped_lm.json"}
_LM_LAYERS = {"prelude": 2, "recur": 3, "coda": 1}
_HIDDEN, _HUGINN_LAYERS = 28, {"prelude": 2, "core_block": 3, "coda": 2}
_TOKENS, _HUGINN_BEGIN = 260, 257  # of its tokeniser; <|begin_text|> among them
_HUGINN_SAID = {"task.tokens": "huginn.json", "training.steps": 7}


@pytest.fixture(autouse=True)
def in_a_folder_with_a_text_and_tokenisers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each code one with the token that begins its documents, and one without."""
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("<|endoftext|>\n".join([_TEXT * 20] * 10))
    for name, first, added in (
        ("looped_lm", _LM_BEGIN, ["<s>"]),
        ("looped_lm_without", _LM_BEGIN, ["<t>"]),
        ("huginn", _HUGINN_BEGIN, ["<|begin_text|>", "<|end_text|>", "<|unused|>"]),
        ("huginn_without", _HUGINN_BEGIN, ["<s>", "<|end_text|>", "<|unused|>"]),
    ):
        content = make_tokenizer("bpe", first + 1, lambda: [_TEXT]).content()
        tokenizer = package.Tokenizer.from_str(content)
        tokenizer.add_special_tokens(added)
        tokenizer.save(f"{name}.json")


def _imported(path: Path, given: Mapping[str, Any]) -> Run:
    return import_checkpoint(path, {"task.text": "text.txt"} | dict(given))


def _normed(x: Tensor, gain: Tensor | float = 1.0) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * gain


def _lm_options(**changes: Any) -> dict[str, Any]:
    options = {
        **{"sequence_len": 24, "n_head": _HEADS, "n_kv_head": _HEADS, "n_embd": _WIDTH},
        **{"n_prelude": 2, "n_recur_block": 3, "n_coda": 1, "num_recur": 4, "bptt_k": 2},
        **{"input_injection": "inject_init_prelude", "num_lanes": 3, "logit_softcap": 4.0},
    }
    return options | changes


def _lm_weights(options: dict[str, Any]) -> dict[str, Tensor]:
    """Random tensors by the code's names; matrices that read tokens have rows for 64 k of them."""
    rows = -(-options["vocab_size"] // 64) * 64
    shapes: dict[str, tuple[int, ...]] = {
        **{"transformer.wte.weight": (rows, _WIDTH), "lm_head.weight": (rows, _WIDTH)},
        **{f"norm_{name}.weight": (_WIDTH,) for name in ("emb", "recur", "final")},
    }
    if options["input_injection"] == "inject_init_prelude":
        shapes["inject.weight"] = (_WIDTH, 2 * _WIDTH)
    if options["input_injection"] == "hyperconnect":
        steps, lanes = options["num_recur"], options["num_lanes"]
        shapes |= {"lane_alpha": (steps, lanes), "lane_mixing": (steps, lanes, lanes)}
        shapes |= {"lane_beta": (steps, lanes)}
    for stack, layers in _LM_LAYERS.items():
        for layer in range(layers):
            block, kv = f"transformer.{stack}.{layer}", options["n_kv_head"] * _SIZE
            shapes |= {f"{block}.{norm}.weight": (_WIDTH,) for norm in ("n1", "n3")}
            shapes |= {f"{block}.attn.c_{each}.weight": (kv, _WIDTH) for each in "kv"}
            shapes |= {f"{block}.attn.c_{each}.weight": (_WIDTH, _WIDTH) for each in ("q", "proj")}
            shapes |= {f"{block}.mlp.c_fc.weight": (4 * _WIDTH, _WIDTH)}
            shapes |= {f"{block}.mlp.c_proj.weight": (_WIDTH, 4 * _WIDTH)}
    generator = torch.Generator().manual_seed(0)
    drawn = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    return {name: each / each.shape[-1] ** 0.5 for name, each in drawn.items()}


def _heads(x: Tensor) -> Tensor:
    """x [S, heads · size] as [heads, S, size], rotated by minus the position and normed."""
    heads = x.unflatten(-1, (-1, _SIZE)).transpose(0, 1)
    first, second = heads.chunk(2, dim=-1)
    speeds = 10_000 ** (-torch.arange(_SIZE // 2) / (_SIZE // 2))
    angles = torch.arange(len(x))[:, None] * speeds
    cos, sin = angles.cos(), angles.sin()
    return _normed(torch.cat((first * cos + second * sin, second * cos - first * sin), dim=-1))


def _lm_block(x: Tensor, weights: dict[str, Tensor], name: str) -> Tensor:
    read = _normed(x, weights[f"{name}.n1.weight"])
    query, key = (_heads(read @ weights[f"{name}.attn.c_{each}.weight"].T) for each in "qk")
    value = (read @ weights[f"{name}.attn.c_v.weight"].T).unflatten(-1, (-1, _SIZE))
    value = value.transpose(0, 1).repeat_interleave(_HEADS // len(key), dim=0)
    key = key.repeat_interleave(_HEADS // len(key), dim=0)
    scores = (query @ key.transpose(1, 2) / _SIZE**0.5).masked_fill(
        torch.ones(len(x), len(x)).triu(1).bool(), -torch.inf
    )
    mixed = (scores.softmax(-1) @ value).transpose(0, 1).flatten(1)
    x = x + mixed @ weights[f"{name}.attn.c_proj.weight"].T
    hidden = _normed(x, weights[f"{name}.n3.weight"]) @ weights[f"{name}.mlp.c_fc.weight"].T
    return x + hidden.relu().square() @ weights[f"{name}.mlp.c_proj.weight"].T


def _lm_stack(x: Tensor, weights: dict[str, Tensor], stack: str) -> Tensor:
    for layer in range(_LM_LAYERS[stack]):
        x = _lm_block(x, weights, f"transformer.{stack}.{layer}")
    return x


def _lm_logits(tokens: list[int], weights: dict[str, Tensor], options: dict[str, Any]) -> Tensor:
    """[S, vocabulary]"""
    e = _normed(weights["transformer.wte.weight"][tokens], weights["norm_emb.weight"])
    e = _lm_stack(e, weights, "prelude")
    kind = options["input_injection"]
    s = 0 * e if kind == "additive" else e
    lanes = [e] * options["num_lanes"]
    for step in range(options["num_recur"]):
        if kind == "inject_init_prelude":
            u = torch.cat((e, s), dim=-1) @ weights["inject.weight"].T
        elif kind == "hyperconnect":
            u = sum(a * lane for a, lane in zip(weights["lane_alpha"][step], lanes, strict=True))
        else:
            u = s + e if kind == "additive" else s
        s = _normed(_lm_stack(u, weights, "recur"), weights["norm_recur.weight"])
        if kind == "hyperconnect":
            mixing, beta = weights["lane_mixing"][step], weights["lane_beta"][step]
            lanes = [
                sum(m * lane for m, lane in zip(row, lanes, strict=True)) + b * s
                for row, b in zip(mixing, beta, strict=True)
            ]
    x = _lm_stack(torch.stack(lanes).sum(0) if kind == "hyperconnect" else s, weights, "coda")
    logits = _normed(x, weights["norm_final.weight"]) @ weights["lm_head.weight"].T
    cap = options["logit_softcap"]
    return cap * torch.tanh(logits[:, : options["vocab_size"]] / cap)


def _lm_saved(weights: dict[str, Tensor], options: dict[str, Any]) -> Path:
    torch.save(weights, "model_000200.pt")
    Path("meta_000200.json").write_text(json.dumps({"step": 200, "model_config": options}))
    return Path("model_000200.pt")


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"n_kv_head": 1, "num_recur": 1},
        {"input_injection": "additive"},
        {"input_injection": "passthrough", "bptt_k": 4},
        {"input_injection": "hyperconnect", "bptt_k": None},
    ],
)
def test_logits_are_those_of_looped_lm_s_model(changes: dict[str, Any]) -> None:
    options = _lm_options(vocab_size=266, **changes)  # 265 of the text, and one that it has not
    weights = _lm_weights(options)
    path = _imported(
        _lm_saved({f"_orig_mod.{k}": w for k, w in weights.items()}, options), _LM_SAID
    ).path
    run = load_run(path)
    assert isinstance(run.task, Language)
    assert (run.step, run.config.loops.b) == (200, options["num_recur"])
    assert run.config.task.settings["packing"] == "best_fit"
    text = run.task.tokenizer.encode(_TEXT).tolist()[:20]
    start = run.task.tokenizer.start
    ours = torch.tensor([[start, *text[:9], start, *text[9:]]])
    found = run.model(Prompts(ours, ours), options["num_recur"])[-1, 0]
    expected = _lm_logits([_LM_BEGIN, *text[:9], _LM_BEGIN, *text[9:]], weights, options)
    assert start == 265
    expected[:, [_LM_BEGIN, start]] = expected[:, [start, _LM_BEGIN]]
    torch.testing.assert_close(found, expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize(
    ("options", "given", "message"),
    [
        ({}, {"task.tokens": "bytes"}, "task.tokens has 256 tokens, and this model needs 265"),
        ({}, {"task.tokens": "looped_lm_without.json"}, "task.tokens has no <s>, which begins"),
        ({"n_coda": 2}, {}, "does not fit its configuration"),
        ({"input_injection": "other"}, {}, "meta_000200.json cannot be read, or is not the code's"),
        ({"num_recur": "many"}, {}, "meta_000200.json cannot be read, or is not the code's"),
    ],
)
def test_what_does_not_fit_looped_lm_is_one_line(
    options: dict[str, Any], given: dict[str, str], message: str
) -> None:
    whole = _lm_options(vocab_size=266)
    path = _lm_saved(_lm_weights(whole), whole | options)
    with pytest.raises((ConfigError, RunError), match=message) as error:
        _imported(path, _LM_SAID | given)
    assert "\n" not in str(error.value)
    assert not Path("runs").exists()


def test_other_tensors_than_looped_lm_s_are_refused() -> None:
    options = _lm_options(vocab_size=266)
    weights = _lm_weights(options)
    key, word = "transformer.recur.1.attn.c_k.weight", "transformer.wte.weight"
    for changed, message in (
        (weights | {"transformer.recur.0.ve.weight": torch.ones(3)}, "absent here"),
        ({name: each for name, each in weights.items() if name != key}, f"lacks {key}"),
        (weights | {key: torch.ones(3, 3)}, "Sizes of tensors must match"),
        (weights | {word: torch.ones(4, _WIDTH)}, "out of bounds"),
    ):
        with pytest.raises(RunError, match=message) as error:
            _imported(_lm_saved(changed, options), _LM_SAID)
        assert "\n" not in str(error.value)
    with pytest.raises(ConfigError, match=r"does not say task\.text, task\.tokens"):
        import_checkpoint(_lm_saved(weights, options), {})


def _huginn_options(**changes: Any) -> dict[str, Any]:
    options = {
        **{"block_size": 24, "n_heads": _HEADS, "n_embd": _WIDTH, "intermediate_size": _HIDDEN},
        **{"n_layers_in_prelude": 2, "n_layers_in_recurrent_block": 3, "n_layers_in_coda": 2},
        **{"mean_recurrence": 4, "mean_backprop_depth": 2, "vocab_size": _TOKENS},
        **{"norm_eps": 1e-6, "tie_embeddings": True, "qk_bias": True, "rope_base": 500.0},
    }
    return options | changes


def _huginn_weights() -> dict[str, Tensor]:
    """Random tensors by the code's names."""
    shapes: dict[str, tuple[int, ...]] = {
        **{"transformer.wte.weight": (_TOKENS, _WIDTH), "transformer.ln_f.weight": (_WIDTH,)},
        **{"transformer.adapter.weight": (_WIDTH, 2 * _WIDTH)},
    }
    for stack, layers in _HUGINN_LAYERS.items():
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


def _turned(heads: Tensor) -> Tensor:
    """Heads [S, heads, size], of which numbers 2i and 2i + 1 are a complex number that turns by
    position · 500^(-2i / size)."""
    pairs = torch.view_as_complex(heads.unflatten(-1, (-1, 2)).contiguous())
    speeds = 500 ** (-torch.arange(0, _SIZE, 2, dtype=torch.float64) / _SIZE)
    angles = torch.arange(len(heads), dtype=torch.float64)[:, None, None] * speeds
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


def _huginn_block(x: Tensor, weights: dict[str, Tensor], name: str) -> Tensor:
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


def _huginn_stack(x: Tensor, weights: dict[str, Tensor], stack: str) -> Tensor:
    for layer in range(_HUGINN_LAYERS[stack]):
        x = _huginn_block(x, weights, f"transformer.{stack}.{layer}")
    return x


def _huginn_logits(tokens: list[int], weights: dict[str, Tensor], loops: int) -> Tensor:
    """[S, vocabulary], from the state 0."""
    embedding, gain = weights["transformer.wte.weight"], weights["transformer.ln_f.weight"]
    e = _huginn_stack(embedding[tokens] * _WIDTH**0.5, weights, "prelude")
    s = 0 * e
    for _ in range(loops):
        both = torch.cat((s, e), dim=-1)
        s = _huginn_stack(both @ weights["transformer.adapter.weight"].T, weights, "core_block")
    return _normed(_huginn_stack(_normed(s, gain), weights, "coda"), gain) @ embedding.T


def _huginn_saved(weights: dict[str, Tensor], options: dict[str, Any]) -> Path:
    safetensors.torch.save_file(weights, "model.safetensors")
    Path("config.json").write_text(json.dumps(options))
    return Path("model.safetensors")


def test_logits_are_those_of_huginn_s_model() -> None:
    """For any number of loops, at once and token by token; those of <|begin_text|>, which begins
    the documents, are our start token's. In float64: random loops amplify what is rounded."""
    weights = _huginn_weights()
    angles = {"freqs_cis": torch.ones(1, 24, 1, _SIZE // 2, 2)}  # the head is saved with others
    head = {"lm_head.weight": weights["transformer.wte.weight"].clone()}
    run = load_run(
        _imported(_huginn_saved(weights | angles | head, _huginn_options()), _HUGINN_SAID).path
    )
    assert isinstance(run.task, Language)
    start = run.task.tokenizer.start
    assert (run.step, run.config.loops.b, run.config.loops.grad_loops, start) == (7, 4, 2, _TOKENS)
    assert run.model.spec.tied_head
    model, exact = run.model.double(), {name: each.double() for name, each in weights.items()}
    text = run.task.tokenizer.encode(_TEXT).tolist()[:20]
    ours = torch.tensor([[start, *text[:9], start, *text[9:]]])
    for loops in (1, 4, 7):
        found = model(Prompts(ours, ours), loops)[-1, 0]
        expected = _huginn_logits(
            [_HUGINN_BEGIN, *text[:9], _HUGINN_BEGIN, *text[9:]], exact, loops
        )
        assert expected.abs().max() > 1
        expected = torch.cat((expected, expected[:, [_HUGINN_BEGIN]]), dim=-1)
        expected[:, _HUGINN_BEGIN] = expected[:, _TOKENS - 1]  # that of the last token
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)
        cache = Cache()
        parts = [model.continue_text(part, loops, cache) for part in ours.split(8, dim=1)]
        torch.testing.assert_close(torch.cat(parts, dim=1)[0], found, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("options", "given", "message"),
    [
        ({}, {"task.tokens": "bytes"}, "task.tokens must have 260 tokens, got 256"),
        (
            {},
            {"task.tokens": "huginn_without.json"},
            r"task.tokens has no <\|begin_text\|>, which begins",
        ),
        ({"n_layers_in_coda": 1}, {}, "does not fit its configuration"),
        ({"norm_eps": 1e-5}, {}, "not the code's: norm_eps must be 1e-6 and tie_embeddings true"),
        ({"mean_recurrence": "many"}, {}, "config.json cannot be read, or is not the code's"),
        ({"n_heads": 16}, {}, "model.n_head leaves heads of 1 numbers"),
    ],
)
def test_what_does_not_fit_huginn_is_one_line(
    options: dict[str, Any], given: dict[str, str], message: str
) -> None:
    path = _huginn_saved(_huginn_weights(), _huginn_options(**options))
    with pytest.raises((ConfigError, RunError), match=message) as error:
        _imported(path, _HUGINN_SAID | given)
    assert "\n" not in str(error.value)
    assert not Path("runs").exists()


def test_other_tensors_than_huginn_s_and_no_config_are_refused() -> None:
    weights = _huginn_weights()
    block, word = "transformer.core_block.1", "transformer.wte.weight"
    for changed, message in (
        (weights | {"transformer.adapter.bias": torch.ones(3)}, "absent here"),
        ({k: v for k, v in weights.items() if "qk_bias" not in k}, "absent there"),
        (weights | {f"{block}.attn.qk_bias": torch.ones(5)}, "invalid for input of size 5"),
        (weights | {word: torch.ones(4, _WIDTH)}, "must match"),
    ):
        with pytest.raises(RunError, match=message) as error:
            _imported(_huginn_saved(changed, _huginn_options()), _HUGINN_SAID)
        assert "\n" not in str(error.value)
    Path("config.json").unlink()
    with pytest.raises(RunError, match=r"config\.json cannot be read"):
        _imported(Path("model.safetensors"), _HUGINN_SAID)
