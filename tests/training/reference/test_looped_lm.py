"""Checkpoints of kschwethelm/looped-lm-scaling: logits are those of its model, written here from
arXiv 2604.21106 and tensors by its names; and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from looplab.conf.mistakes import ConfigError, RunError
from looplab.evaluation.load import load_run
from looplab.tasks import Prompts
from looplab.tasks.language import Language
from looplab.tasks.language.tokens import make_tokenizer
from looplab.training import Run, import_checkpoint

package = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
_WIDTH, _HEADS, _LAYERS = 16, 2, {"prelude": 2, "recur": 3, "coda": 1}
_SIZE = _WIDTH // _HEADS
_TEXT = "the cat sat on the mat and saw the bat.\n"
_BEGIN = 264  # <s>, the last token of the tokeniser


def _options(**changes: Any) -> dict[str, Any]:
    options = {
        **{"sequence_len": 24, "n_head": _HEADS, "n_kv_head": _HEADS, "n_embd": _WIDTH},
        **{"n_prelude": 2, "n_recur_block": 3, "n_coda": 1, "num_recur": 4, "bptt_k": 2},
        **{"input_injection": "inject_init_prelude", "num_lanes": 3, "logit_softcap": 4.0},
    }
    return options | changes


def _weights(options: dict[str, Any]) -> dict[str, Tensor]:
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
    for stack, layers in _LAYERS.items():
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


def _normed(x: Tensor, gain: Tensor | float = 1.0) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * gain


def _heads(x: Tensor) -> Tensor:
    """x [S, heads · size] as [heads, S, size], rotated by minus the position and normed."""
    heads = x.unflatten(-1, (-1, _SIZE)).transpose(0, 1)
    first, second = heads.chunk(2, dim=-1)
    speeds = 10_000 ** (-torch.arange(_SIZE // 2) / (_SIZE // 2))
    angles = torch.arange(len(x))[:, None] * speeds
    cos, sin = angles.cos(), angles.sin()
    return _normed(torch.cat((first * cos + second * sin, second * cos - first * sin), dim=-1))


def _block(x: Tensor, weights: dict[str, Tensor], name: str) -> Tensor:
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


def _stack(x: Tensor, weights: dict[str, Tensor], stack: str) -> Tensor:
    for layer in range(_LAYERS[stack]):
        x = _block(x, weights, f"transformer.{stack}.{layer}")
    return x


def _logits(tokens: list[int], weights: dict[str, Tensor], options: dict[str, Any]) -> Tensor:
    """[S, vocabulary]"""
    e = _normed(weights["transformer.wte.weight"][tokens], weights["norm_emb.weight"])
    e = _stack(e, weights, "prelude")
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
        s = _normed(_stack(u, weights, "recur"), weights["norm_recur.weight"])
        if kind == "hyperconnect":
            mixing, beta = weights["lane_mixing"][step], weights["lane_beta"][step]
            lanes = [
                sum(m * lane for m, lane in zip(row, lanes, strict=True)) + b * s
                for row, b in zip(mixing, beta, strict=True)
            ]
    x = _stack(torch.stack(lanes).sum(0) if kind == "hyperconnect" else s, weights, "coda")
    logits = _normed(x, weights["norm_final.weight"]) @ weights["lm_head.weight"].T
    cap = options["logit_softcap"]
    return cap * torch.tanh(logits[:, : options["vocab_size"]] / cap)


@pytest.fixture(autouse=True)
def in_a_folder_with_a_text_and_a_tokeniser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("<|endoftext|>\n".join([_TEXT * 20] * 10))
    for name, begin in (("tokenizer", "<s>"), ("without", "<t>")):
        content = make_tokenizer("bpe", _BEGIN + 1, lambda: [_TEXT]).content()
        tokenizer = package.Tokenizer.from_str(content)
        tokenizer.add_special_tokens([begin])
        tokenizer.save(f"{name}.json")


def _saved(weights: dict[str, Tensor], options: dict[str, Any]) -> Path:
    torch.save(weights, "model_000200.pt")
    Path("meta_000200.json").write_text(json.dumps({"step": 200, "model_config": options}))
    return Path("model_000200.pt")


def _imported(path: Path, **given: str) -> Run:
    settings = {"task.text": "text.txt", "task.tokens": "tokenizer.json"}
    return import_checkpoint(path, settings | {f"task.{key}": each for key, each in given.items()})


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
def test_logits_are_those_of_its_model(changes: dict[str, Any]) -> None:
    options = _options(vocab_size=266, **changes)  # 265 of the text, and one that it has not
    weights = _weights(options)
    path = _imported(_saved({f"_orig_mod.{k}": w for k, w in weights.items()}, options)).path
    run = load_run(path)
    assert isinstance(run.task, Language)
    assert (run.step, run.config.loops.b) == (200, options["num_recur"])
    assert run.config.task.settings["packing"] == "best_fit"
    text = run.task.tokenizer.encode(_TEXT).tolist()[:20]
    start = run.task.tokenizer.start
    ours = torch.tensor([[start, *text[:9], start, *text[9:]]])
    found = run.model(Prompts(ours, ours), options["num_recur"])[-1, 0]
    expected = _logits([_BEGIN, *text[:9], _BEGIN, *text[9:]], weights, options)
    assert start == 265
    expected[:, [_BEGIN, start]] = expected[:, [start, _BEGIN]]
    torch.testing.assert_close(found, expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize(
    ("options", "given", "message"),
    [
        ({}, {"tokens": "bytes"}, "task.tokens has 256 tokens, and this model needs 265"),
        ({}, {"tokens": "without.json"}, "task.tokens has no <s>, which begins"),
        ({"n_coda": 2}, {}, "does not fit its configuration"),
        ({"input_injection": "other"}, {}, "meta_000200.json cannot be read, or is not the code's"),
        ({"num_recur": "many"}, {}, "meta_000200.json cannot be read, or is not the code's"),
    ],
)
def test_what_does_not_fit_is_one_line(
    options: dict[str, Any], given: dict[str, str], message: str
) -> None:
    whole = _options(vocab_size=266)
    path = _saved(_weights(whole), whole | options)
    with pytest.raises((ConfigError, RunError), match=message) as error:
        _imported(path, **given)
    assert "\n" not in str(error.value)
    assert not Path("runs").exists()


def test_other_tensors_are_refused() -> None:
    options = _options(vocab_size=266)
    weights = _weights(options)
    key, word = "transformer.recur.1.attn.c_k.weight", "transformer.wte.weight"
    for changed, message in (
        (weights | {"transformer.recur.0.ve.weight": torch.ones(3)}, "Unexpected key"),
        ({name: each for name, each in weights.items() if name != key}, f"lacks {key}"),
        (weights | {key: torch.ones(3, 3)}, "Sizes of tensors must match"),
        (weights | {word: torch.ones(4, _WIDTH)}, "out of bounds"),
    ):
        with pytest.raises(RunError, match=message) as error:
            _imported(_saved(changed, options))
        assert "\n" not in str(error.value)
    with pytest.raises(ConfigError, match=r"does not say task\.text, task\.tokens"):
        import_checkpoint(_saved(weights, options), {})
