"""The memory that a configuration needs, estimated from its numbers alone. No torch here.

training_bytes(config) / 2**30       # GiB, within a factor of about two of the measured
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from ..schema import Config
from .loops import most_loops

_PROCESS = 400 * 2**20  # bytes of a process after a step with a tiny model
_LAYER = 40_000  # bytes of the Python objects of a layer
_SHARD = 6_000  # bytes of a shard's generator
_FLOAT = 4
# Tokens of bytes, of byte pairs unless given, and of a large tokeniser.
_BYTES, _PAIRS, _LARGE = 257, 4096, 150_000
_LOGITS = 3  # floats stored for each: the logit, its cap and its gradient
_STATES = 4  # of a parameter, a float each: weight, gradient, and the optimiser's two moments
# Floats that a layer saves for its backward pass, per token and per unit of its width.
_ACTIVATIONS = {"gpt2": 17, "llama": 30, "flt": 30, "relu2": 30}
_FORWARD_ACTIVATIONS = 24  # the same of a forward pass alone
_SHORT = 48  # tokens up to which a CPU stores attention's weights
_SOLVER_BATCH = 1024  # prompts that a solver takes at once
MOST_DEPTH = 40  # of decision trees, with a trillion leaves
Sizes = Mapping[str, Any]  # settings by key, those of the task included, such as {"task.dims": 20}


def parameters(config: Config) -> int:
    """The approximate number of a model's parameters."""
    return parameters_of(sizes_of(config))


def training_bytes(config: Config, runs: int = 1) -> int:
    """Bytes of memory that the largest step of a training takes, or of `runs` trained together."""
    return training_of(sizes_of(config) | {"together": runs})


def evaluation_bytes(config: Config) -> int:
    """Bytes of memory that an evaluation takes."""
    return evaluation_of(sizes_of(config))


def parameters_of(s: Sizes) -> int:
    """The approximate number of parameters."""
    if s["model.injection"] == "linear_attention":
        return int(s["model.n_embd"] * (s["model.n_embd"] + 1))
    width, layers = s["model.n_embd"], s["model.n_layer"] + s["model.prelude"] + s["model.coda"]
    hidden = 4 * width  # a gated MLP's three matrices are as large as two of this width
    keys = (
        s["model.n_kv"] * (width // s["model.n_head"])
        if s["model.attention"] == "grouped"
        else width
    )
    block = width * (2 * width + 2 * keys + 2 * hidden) + 13 * width + 3 * width * s["model.rank"]
    outside = width * (s["task.dims"] + 2 * s["model.n_positions"] + 4)
    outside += (1 if s["model.tied_head"] else 2) * width * _vocabulary(s)
    if s["model.injection"] == "concat":
        outside += 2 * width * width
    lanes = s["model.lanes"]
    return int(layers * block + outside + s["loops.b"] * lanes * (lanes + 2))


def training_of(s: Sizes) -> int:
    """Bytes of the weights with the optimiser's state, of the activations that the layers save for
    a shard's backward pass, and of its prompts, of all runs that are trained together."""
    tokens = s["task.points"] if _vocabulary(s) else 2 * s["task.points"] - 1
    shards = min(s["training.shards"], s["training.batch_size"])
    batch = -(-s["training.batch_size"] // shards)
    _, grad_loops, window = loops_of(s)
    if s.get("training.jacobian_penalty"):
        grad_loops += 2  # from two states
    passes = grad_loops * (1 if s["model.family"] == "standard" else s["model.n_layer"])
    width = s["model.n_embd"]
    layer = _ACTIVATIONS[s["model.block"]] * width + _attention(s, tokens)
    loop = 5 * width + 3 * s["model.lanes"] * width
    per_token = passes * layer + grad_loops * loop + s["model.prelude"] * layer + window * width
    per_token += _LOGITS * window * _vocabulary(s)
    coda = s["model.coda"] * window * layer
    activations = _FLOAT * batch * tokens * (per_token + coda)
    states = _FLOAT * (_STATES + bool(s["training.ema_decay"])) * parameters_of(s)
    prompts = (
        batch
        * _prompt(s)
        * (3 if s["task.distinct_prompts"] or s["task.distinct_functions"] else 1)
    )
    run = _layers(s) + states + activations + prompts + s["training.shards"] * _SHARD
    return int(_PROCESS + s["together"] * run)


def evaluation_of(s: Sizes) -> int:
    """Bytes of all prompts, of their errors and resamples, and of a batch in the model or in a
    solver."""
    prompts, points, dims = s["evaluation.prompts"], s["task.points"], s["task.dims"]
    loops, width = evaluation_loops_of(s), s["model.n_embd"]
    errors = 2 * _FLOAT * prompts * (3 * loops + 4 * points)
    means = 8 * s["evaluation.resamples"] * (2 * prompts + 2 * max(loops, points))
    batch = min(prompts, s["evaluation.batch_size"])
    tokens = points if _vocabulary(s) else 2 * points
    layer = _FORWARD_ACTIVATIONS * width + 2 * _attention(s, tokens) + 2 * s["model.lanes"] * width
    layer += _LOGITS * _vocabulary(s)
    model = _FLOAT * (parameters_of(s) + batch * tokens * layer)
    solver_batch = min(prompts, _SOLVER_BATCH)
    solver = 8 * solver_batch * dims * (4 * points + 4 * _solver_size(s))
    run = _layers(s) + prompts * _prompt(s) + errors + means + max(model, solver)
    return int(_PROCESS + run)


def _layers(s: Sizes) -> int:
    """Bytes of the layers' Python objects."""
    return int(_LAYER * (s["model.n_layer"] + s["model.prelude"] + s["model.coda"]))


def _prompt(s: Sizes) -> int:
    """Bytes of a prompt during sampling, and of its function."""
    dims, points = s["task.dims"], s["task.points"]
    numbers = 8 * points * dims + 4 * dims
    hidden = s.get("task.hidden", 0)
    numbers += hidden * (dims + 2 * points)
    leaves = 2 ** min(s.get("task.depth", 0), MOST_DEPTH) if "task.depth" in s else 0
    return int(_FLOAT * (numbers + 7 * leaves))


def _vocabulary(s: Sizes) -> int:
    """The tokens of a text, as far as they are known without reading it; 0 for pairs."""
    if s["task.name"] != "language":
        return 0
    known = {"bytes": _BYTES, "bpe": s.get("task.vocabulary", _PAIRS)}
    return int(known.get(s.get("task.tokens", "bytes"), _LARGE))


def _attention(s: Sizes, tokens: int) -> int:
    """Floats of attention's weights for a token, where they are stored."""
    return int(2 * s["model.n_head"] * tokens) if tokens <= _SHORT else 0


def _solver_size(s: Sizes) -> int:
    """The side of the square matrix that a solver stores for each prompt."""
    baselines, dims, points = s["evaluation.baselines"], s["task.dims"], s["task.points"]
    names = baselines if baselines is not None else _SOLVERS.get(s["task.name"], ())
    if {"lasso", "ridge", "bayes"} & set(names):
        return int(dims)
    return int(min(dims, points)) if "least_squares" in names else 0


_SOLVERS = {
    **dict.fromkeys(
        ("linear", "conditioned_linear", "relu_network", "tables", "halfspaces"), ("least_squares",)
    ),
    **{"noisy_linear": ("ridge",), "sparse_linear": ("lasso",)},
}


def loops_of(s: Sizes) -> tuple[int, int, int]:
    """The most loops of a step, of its gradients, and of its loss."""
    if s["model.family"] == "standard":
        layers = s["model.n_layer"]
        return layers, layers, 1
    most = most_loops(s["loops.sampling"], s["loops.b"], s["loops.least"])
    if s["model.family"] == "tied":
        return most, most, 1
    window, reach = min(s["loops.T"], most), s["loops.grad_loops"]
    through = {"window": window, "half": max((most + 1) // 2, window), "all": most}
    grad_loops = reach if isinstance(reach, int) else through[reach]
    return most, min(grad_loops, most), window


def evaluation_loops_of(s: Sizes) -> int:
    """The most loops that an evaluation makes."""
    if s["model.family"] == "standard":
        return int(s["model.n_layer"])
    b, loops = s["loops.b"], s["evaluation.loops"]
    least = max(b, loops) if isinstance(loops, int) else b
    most = max(s["evaluation.max_loops"] or 3 * b, least)
    return int(b if s["model.lanes"] else most)


def sizes_of(config: Config) -> dict[str, Any]:
    """All settings by key, those of the task included."""
    flat = {
        f"{group.name}.{field.name}": getattr(getattr(config, group.name), field.name)
        for group in fields(config)
        if is_dataclass(getattr(config, group.name))
        for field in fields(getattr(config, group.name))
    }
    return flat | {f"task.{key}": value for key, value in flat.pop("task.settings").items()}
