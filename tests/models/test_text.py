"""Models of a text: shapes, causality, the head, and continuation with a cache."""

import math
from typing import Any

import pytest
import torch
from torch import Generator, Tensor

from looplab.models import Model, ModelSpec
from looplab.models.operations import Cache, Operations
from looplab.tasks import Prompts

_VOCABULARY, _TOKENS = 70, 24
_LOOPS: dict[str, dict[str, Any]] = {
    "looped": {"injection": "add"},
    "tied": {"family": "tied", "injection": "none"},
    "standard": {"family": "standard", "injection": "none", "n_layer": 3},
    **{
        name: {"connectivity": name, "injection": "none", "block": "flt", "n_layer": 2}
        for name in ("LT", "LT_i", "LT_ai", "FLT", "FLT_res")
    },
    "recurrent": {"injection": "concat", "prelude": 1, "coda": 1, "block": "llama"},
    "lanes": {"injection": "none", "lanes": 2, "block": "llama"},
    "sandwich": {
        **{"injection": "concat", "norm": "at_readout", "prelude": 1, "coda": 2},
        **{"block": "sandwich", "n_hidden": 40, "rope_base": 300},
    },
    "unnormed": {"injection": "none", "norm": "at_readout", "block": "llama"},
    "grouped": {"injection": "add", "block": "flt", "attention": "grouped", "n_kv": 2},
    "latent": {"injection": "add", "block": "flt", "attention": "latent", "rank": 8},
    "sliding": {
        **{"injection": "add", "block": "flt", "attention": "sliding", "pattern": "SL"},
        "n_layer": 2,
    },
}


def _model(name: str, **settings: Any) -> Model:
    values: dict[str, Any] = {
        "family": "looped",
        "n_embd": 32,
        "n_head": 4,
        "n_positions": _TOKENS,
        "loops": 3,
    }
    spec = ModelSpec(dims=1, vocabulary=_VOCABULARY, **values | _LOOPS[name] | settings)
    model = Model(spec, Generator().manual_seed(1))
    generator = Generator().manual_seed(2)
    with torch.no_grad():  # some blocks begin as the identity
        for parameter in model.loop.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.1)
    return model.eval()


def _prompts(seed: int = 0) -> Prompts:
    tokens = torch.randint(_VOCABULARY, (2, _TOKENS + 1), generator=Generator().manual_seed(seed))
    return Prompts(tokens[:, :-1], tokens[:, 1:])


@pytest.mark.parametrize("name", _LOOPS)
def test_logits_are_those_of_the_tokens_so_far(name: str) -> None:
    """Of those alone; unrolled, and piece by piece with a cache, too."""
    model, prompts = _model(name), _prompts()
    logits = model(prompts, 3, 1 if name == "standard" else 2)
    assert logits.shape[1:] == (2, _TOKENS, _VOCABULARY)
    changed = prompts.xs.clone()
    changed[:, 10] = (changed[:, 10] + 1) % _VOCABULARY
    other = model(Prompts(changed, prompts.ys), 3)[-1]
    assert torch.allclose(logits[-1, :, :10], other[:, :10], atol=1e-6)
    assert (logits[-1, :, 10] - other[:, 10]).abs().max() > 1e-3
    unrolled = [each for _, each in model.unroll(prompts, 3)][-len(logits) :]
    assert torch.allclose(torch.stack(unrolled), logits, atol=1e-5)
    cache, parts = Cache(), []
    for first, last in ((0, 7), (7, 8), (8, 9), (9, 20), (20, _TOKENS)):
        parts.append(model.continue_text(prompts.xs[:, first:last], 3, cache))
    assert cache.length == _TOKENS
    assert torch.allclose(torch.cat(parts, dim=1), logits[-1], atol=2e-5)


def test_a_continuation_computes_by_the_models_operations() -> None:
    used = set[str]()

    class Noting(Operations):
        def __getattribute__(self, name: str) -> Any:
            used.add(name)
            return super().__getattribute__(name)

    model = _model("FLT")
    model.operations = Noting()
    model.continue_text(_prompts().xs, 2, Cache())
    assert used >= {"linear", "rms_norm", "rotate", "squared_relu"}


@pytest.mark.parametrize("name", _LOOPS)
def test_loops_may_share_keys_and_values(name: str) -> None:
    """A text read at once has the same logits, and takes the bytes of one loop. Later tokens read
    what the last loop left, as if each loop had left that; of one loop, and of layers that differ,
    all is the same. Bit for bit."""
    model, xs = _model(name), _prompts().xs
    before, layers = model.spec.prelude, model.spec.n_layer
    own, shared, once = Cache(), Cache(shared=True), Cache()
    first = model.continue_text(xs[:, :20], 3, own)
    assert torch.equal(model.continue_text(xs[:, :20], 3, shared), first)
    if name == "standard":
        assert shared.bytes == own.bytes
    else:
        model.continue_text(xs[:, :20], 1, once)
        assert shared.bytes == once.bytes
        per_layer = own.bytes // len(own.entries)
        assert own.bytes - shared.bytes == 2 * layers * per_layer
        for place in range(before, before + 2 * layers):
            own.entries[place] = own.entries[before + 2 * layers + (place - before) % layers]
    rest = model.continue_text(xs[:, 20:], 3, own)
    assert torch.equal(model.continue_text(xs[:, 20:], 3, shared), rest)
    of_one = [Cache(), Cache(shared=True)]
    for part in xs.split(12, dim=1):
        found = [model.continue_text(part, 1, cache) for cache in of_one]
        assert torch.equal(*found)


def test_the_head_may_be_the_embedding() -> None:
    tied, own = _model("looped", tied_head=True), _model("looped")
    names = dict(tied.named_parameters())
    assert "read_in.weight" in names
    assert "read_out.weight" not in names
    rows = -(-_VOCABULARY // 64) * 64
    saved = sum(p.numel() for p in own.parameters()) - sum(p.numel() for p in tied.parameters())
    assert saved == rows * 32
    tied(_prompts(), 3).sum().backward()
    gradient = tied.read_in.weight.grad
    assert gradient is not None
    assert gradient[:_VOCABULARY].abs().sum(1).min() > 0
    assert gradient[_VOCABULARY:].abs().max() == 0  # rows that pad


def test_a_soft_cap_limits_logits() -> None:
    plain, capped = _model("looped"), _model("looped", softcap=0.5)
    logits, limited = plain(_prompts(), 3), capped(_prompts(), 3)
    assert torch.allclose(limited, 0.5 * torch.tanh(logits / 0.5), atol=1e-6)


def test_initial_weights_have_their_standard_deviations() -> None:
    model = Model(
        ModelSpec(dims=1, vocabulary=2000, n_embd=64, n_head=4, embedding_std=1.0, head_std=0.01),
        Generator().manual_seed(0),
    )

    def std(weight: Tensor) -> float:
        return float(weight.detach().std())

    assert std(model.read_in.weight) == pytest.approx(1.0, rel=0.02)
    assert std(model.read_out.weight) == pytest.approx(0.01, rel=0.02)
    loss = torch.nn.functional.cross_entropy(
        model(Prompts(torch.arange(100)[None], torch.arange(100)[None]), 1)[0, 0], torch.arange(100)
    )
    assert loss.item() == pytest.approx(math.log(2000), rel=0.01)


def test_prompts_that_it_cannot_read() -> None:
    model = _model("looped")
    tokens = torch.zeros(1, _TOKENS + 1, dtype=torch.int64)
    with pytest.raises(ValueError, match="25 tokens"):
        model(Prompts(tokens, tokens), 3)
    with pytest.raises(ValueError, match="25 tokens"):
        model.continue_text(tokens, 3, Cache())
    pairs = Prompts(torch.zeros(1, 3, 1), torch.zeros(1, 3))
    with pytest.raises(ValueError, match="a language model reads tokens"):
        model(pairs, 3)
