"""The memory that a configuration needs, estimated before anything is allocated; what no machine
holds is refused in a line that names the setting that drives it. No torch here.

    check_training_size(config)          # ConfigError: model.n_embd is 1000000: …
    training_bytes(config) / 2**30       # GiB, within a factor of about two of the measured
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from ..mistakes import ConfigError
from ..schema import Config
from .loops import most_loops
from .machine import has_gpu, total_memory

_PROCESS = 400 * 2**20  # bytes of a process after a step with a tiny model
_LAYER = 40_000  # bytes of the Python objects of a layer
_SHARD = 6_000  # bytes of a shard's generator
_FLOAT = 4
_STATES = 4  # of a parameter, a float each: weight, gradient, and the optimiser's two moments
# Floats that a layer saves for its backward pass, per token and per unit of its width.
_ACTIVATIONS = {"gpt2": 17, "llama": 30, "flt": 30}
_FORWARD_ACTIVATIONS = 24  # the same of a forward pass alone
_SHORT = 48  # tokens up to which a CPU stores attention's weights
_SOLVER_BATCH = 1024  # prompts that a solver takes at once
_LARGEST_GPU = 320 * 2**30  # bytes; what needs more fits on no GPU
_MOST_PASSES = 1_000_000  # sequential passes through a layer; more would take minutes a step
_MOST_SHARDS = 1000  # tried for a batch to fit
_MOST_DEPTH = 40  # of decision trees, with a trillion leaves
# Typical values: the error names the setting whose change to its typical value would save most
# memory.
_TYPICAL = {
    **{"task.dims": 20, "task.points": 41, "task.hidden": 100, "task.depth": 4},
    **{"model.n_layer": 12, "model.n_embd": 256, "model.n_head": 8, "model.n_positions": 101},
    **{"model.prelude": 4, "model.coda": 4, "model.lanes": 4, "model.rank": 256},
    **{"loops.b": 20, "loops.T": 15, "training.batch_size": 64, "training.shards": 1},
    **{"together": 1},
    **{"evaluation.prompts": 1280, "evaluation.resamples": 1000, "evaluation.batch_size": 128},
    **{"evaluation.loops": 100, "evaluation.max_loops": 100},
}
_Sizes = Mapping[str, Any]


def parameters(config: Config) -> int:
    """The approximate number of a model's parameters."""
    return _parameters(_sizes(config))


def training_bytes(config: Config, runs: int = 1) -> int:
    """Bytes of memory that the largest step of a training takes, or of `runs` trained together."""
    return _training(_sizes(config) | {"together": runs})


def evaluation_bytes(config: Config) -> int:
    """Bytes of memory that an evaluation takes."""
    return _evaluation(_sizes(config))


def check_training_size(
    config: Config, names: Mapping[str, str] | None = None, runs: int = 1
) -> None:
    """Raises ConfigError where a step of this training, or of `runs` like it trained together, does
    not fit into memory.

    `names` maps keys to the names that a command has for them. On a GPU, whose memory is not known
    here, the limit is at least that of the largest GPU.
    """
    sizes = _sizes(config) | {"together": runs}
    _check_time(sizes, names or {}, _loops(sizes)[0])
    on_gpu = config.device.startswith(("cuda", "mps")) or (config.device == "auto" and has_gpu())
    _check(sizes, _training, "a training step", names or {}, gpu=on_gpu)


def check_evaluation_size(config: Config, names: Mapping[str, str] | None = None) -> None:
    """Raises ConfigError where an evaluation with these settings does not fit into memory; `names`
    as for `check_training_size`."""
    sizes = _sizes(config)
    _check_time(sizes, names or {}, _evaluation_loops(sizes))
    _check(sizes, _evaluation, "the evaluation", names or {}, gpu=False)


def check_bytes(needs: Callable[[_Sizes], int], sizes: _Sizes, what: str) -> None:
    """Raises ConfigError, naming the key of `sizes` that drives it, where `what` needs more memory
    than the machine has: for commands whose settings are no Config. A typical value is 1."""
    _refuse(sizes, needs, dict.fromkeys(sizes, 1), what, {}, total_memory(), "this machine has")


def _check(
    sizes: _Sizes,
    needs: Callable[[_Sizes], int],
    what: str,
    names: Mapping[str, str],
    gpu: bool,
) -> None:
    limit, owner = total_memory(), "this machine has"
    if gpu and (limit is None or limit < _LARGEST_GPU):
        limit, owner = _LARGEST_GPU, "the largest GPU has"
    _refuse(sizes, needs, _TYPICAL, what, names, limit, owner)


def _refuse(
    sizes: _Sizes,
    needs: Callable[[_Sizes], int],
    typical: Mapping[str, int],
    what: str,
    names: Mapping[str, str],
    limit: int | None,
    owner: str,
) -> None:
    need = needs(sizes)
    if limit is None or need <= limit:
        return
    reduced_needs = {
        key: needs({**sizes, key: typical_value})
        for key, typical_value in typical.items()
        if isinstance(sizes.get(key), int) and sizes[key] > typical_value
    }
    key = min(reduced_needs, key=lambda name: reduced_needs[name], default="task.dims")
    raise ConfigError(
        names.get(key, key),
        f"is {_short(sizes[key])}: {what} needs {_in_bytes(need)} of memory or so, and {owner} "
        f"{_in_bytes(limit)}{_shards(sizes, needs, limit)}",
    )


def _shards(sizes: _Sizes, needs: Callable[[_Sizes], int], limit: int) -> str:
    """A hint with the number of shards that would make a batch fit; empty where none would."""
    batch = sizes.get("training.batch_size", 1)
    for shards in range(2, min(batch, _MOST_SHARDS) + 1):
        if batch % shards == 0 and needs({**sizes, "training.shards": shards}) <= limit:
            return f"; training.shards={shards} would do"
    return ""


def _check_time(sizes: _Sizes, names: Mapping[str, str], loops: int) -> None:
    """Raises ConfigError where a first step, or a first prompt, would take minutes or for ever."""
    if sizes.get("task.depth", 0) > _MOST_DEPTH:
        depth = _short(sizes["task.depth"])
        raise ConfigError("task.depth", f"is {depth}: a tree has 2^{depth} leaves, at most 2^40")
    layers = sizes["model.n_layer"]
    passes = loops * (1 if sizes["model.family"] == "standard" else layers)
    if passes <= _MOST_PASSES:
        return
    loop_settings = {"loops.b": 20, "evaluation.loops": 100, "evaluation.max_loops": 100}
    factors = {
        key: sizes[key] // typical_value
        for key, typical_value in {"model.n_layer": 12, **loop_settings}.items()
        if isinstance(sizes[key], int)
    }
    key = max(factors, key=lambda name: factors[name])
    raise ConfigError(
        names.get(key, key),
        f"is {_short(sizes[key])}: {_short(passes)} passes through a layer for one prediction, "
        f"at most {_MOST_PASSES:,}",
    )


def _parameters(s: _Sizes) -> int:
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
    if s["model.injection"] == "concat":
        outside += 2 * width * width
    lanes = s["model.lanes"]
    return int(layers * block + outside + s["loops.b"] * lanes * (lanes + 2))


def _training(s: _Sizes) -> int:
    """Bytes of the weights with the optimiser's state, of the activations that the layers save for
    a shard's backward pass, and of its prompts, of all runs that are trained together."""
    tokens = 2 * s["task.points"] - 1
    shards = min(s["training.shards"], s["training.batch_size"])
    batch = -(-s["training.batch_size"] // shards)
    _, grad_loops, window = _loops(s)
    passes = grad_loops * (1 if s["model.family"] == "standard" else s["model.n_layer"])
    width = s["model.n_embd"]
    layer = _ACTIVATIONS[s["model.block"]] * width + _attention(s, tokens)
    loop = 5 * width + 3 * s["model.lanes"] * width
    per_token = passes * layer + grad_loops * loop + s["model.prelude"] * layer + window * width
    coda = s["model.coda"] * window * layer
    activations = _FLOAT * batch * tokens * (per_token + coda)
    states = _FLOAT * (_STATES + bool(s["training.ema_decay"])) * _parameters(s)
    prompts = (
        batch
        * _prompt(s)
        * (3 if s["task.distinct_prompts"] or s["task.distinct_functions"] else 1)
    )
    run = _layers(s) + states + activations + prompts + s["training.shards"] * _SHARD
    return int(_PROCESS + s["together"] * run)


def _evaluation(s: _Sizes) -> int:
    """Bytes of all prompts, of their errors and resamples, and of a batch in the model or in a
    solver."""
    prompts, points, dims = s["evaluation.prompts"], s["task.points"], s["task.dims"]
    loops, width = _evaluation_loops(s), s["model.n_embd"]
    errors = 2 * _FLOAT * prompts * (3 * loops + 4 * points)
    means = 8 * s["evaluation.resamples"] * (2 * prompts + 2 * max(loops, points))
    batch, tokens = min(prompts, s["evaluation.batch_size"]), 2 * points
    layer = _FORWARD_ACTIVATIONS * width + 2 * _attention(s, tokens) + 2 * s["model.lanes"] * width
    model = _FLOAT * (_parameters(s) + batch * tokens * layer)
    solver_batch = min(prompts, _SOLVER_BATCH)
    solver = 8 * solver_batch * dims * (4 * points + 4 * _solver_size(s))
    run = _layers(s) + prompts * _prompt(s) + errors + means + max(model, solver)
    return int(_PROCESS + run)


def _layers(s: _Sizes) -> int:
    """Bytes of the layers' Python objects."""
    return int(_LAYER * (s["model.n_layer"] + s["model.prelude"] + s["model.coda"]))


def _prompt(s: _Sizes) -> int:
    """Bytes of a prompt during sampling, and of its function."""
    dims, points = s["task.dims"], s["task.points"]
    numbers = 8 * points * dims + 4 * dims
    hidden = s.get("task.hidden", 0)
    numbers += hidden * (dims + 2 * points)
    leaves = 2 ** min(s.get("task.depth", 0), _MOST_DEPTH) if "task.depth" in s else 0
    return int(_FLOAT * (numbers + 7 * leaves))


def _attention(s: _Sizes, tokens: int) -> int:
    """Floats of attention's weights for a token, where they are stored."""
    return int(2 * s["model.n_head"] * tokens) if tokens <= _SHORT else 0


def _solver_size(s: _Sizes) -> int:
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


def _loops(s: _Sizes) -> tuple[int, int, int]:
    """The most loops of a step, of its gradients, and of its loss."""
    if s["model.family"] == "standard":
        layers = s["model.n_layer"]
        return layers, layers, 1
    most = most_loops(s["loops.sampling"], s["loops.b"])
    if s["model.family"] == "tied":
        return most, most, 1
    window, reach = min(s["loops.T"], most), s["loops.grad_loops"]
    through = {"window": window, "half": max((most + 1) // 2, window), "all": most}
    grad_loops = reach if isinstance(reach, int) else through[reach]
    return most, min(grad_loops, most), window


def _evaluation_loops(s: _Sizes) -> int:
    """The most loops that an evaluation makes."""
    if s["model.family"] == "standard":
        return int(s["model.n_layer"])
    b, loops = s["loops.b"], s["evaluation.loops"]
    least = max(b, loops) if isinstance(loops, int) else b
    most = max(s["evaluation.max_loops"] or 3 * b, least)
    return int(b if s["model.lanes"] else most)


def _sizes(config: Config) -> dict[str, Any]:
    """All settings by key, those of the task included."""
    flat = {
        f"{group.name}.{field.name}": getattr(getattr(config, group.name), field.name)
        for group in fields(config)
        if is_dataclass(getattr(config, group.name))
        for field in fields(getattr(config, group.name))
    }
    return flat | {f"task.{key}": value for key, value in flat.pop("task.settings").items()}


def _short(number: int) -> str:
    """A number as text: 1,000,000, or a power of ten where it is long."""
    text = f"{number:,}"
    return text if len(text) <= 21 else f"about 1e{len(str(number)) - 1}"


def _in_bytes(number: int) -> str:
    for unit, size in (("GB", 10**9), ("TB", 10**12), ("PB", 10**15)):
        if number < 1000 * size:
            return f"{number / size:.3g} {unit}"
    return f"{_short(number // 10**15)} PB"
