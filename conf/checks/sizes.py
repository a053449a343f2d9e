"""Sizes that no machine holds are refused before anything is allocated, in a line that names the
setting that drives them. No torch here.

check_training_size(config)          # ConfigError: model.n_embd is 1000000: …
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..mistakes import ConfigError
from ..schema import Config
from .machine import has_gpu, total_memory
from .memory import (
    MOST_DEPTH,
    Sizes,
    evaluation_loops_of,
    evaluation_of,
    loops_of,
    sizes_of,
    training_of,
)

_LARGEST_GPU = 320 * 2**30  # bytes; what needs more fits on no GPU
_MOST_PASSES = 1_000_000  # sequential passes through a layer; more would take minutes a step
_MOST_SHARDS = 1000  # tried for a batch to fit
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


def check_training_size(
    config: Config, names: Mapping[str, str] | None = None, runs: int = 1
) -> None:
    """Raises ConfigError where a step of this training, or of `runs` like it trained together, does
    not fit into memory.

    `names` maps keys to the names that a command has for them. On a GPU, whose memory is not known
    here, the limit is at least that of the largest GPU.
    """
    sizes = sizes_of(config) | {"together": runs}
    _check_time(sizes, names or {}, loops_of(sizes)[0])
    on_gpu = config.device.startswith(("cuda", "mps")) or (config.device == "auto" and has_gpu())
    _check(sizes, training_of, "a training step", names or {}, gpu=on_gpu)


def check_evaluation_size(config: Config, names: Mapping[str, str] | None = None) -> None:
    """Raises ConfigError where an evaluation with these settings does not fit into memory; `names`
    as for `check_training_size`."""
    sizes = sizes_of(config)
    _check_time(sizes, names or {}, evaluation_loops_of(sizes))
    _check(sizes, evaluation_of, "the evaluation", names or {}, gpu=False)


def check_bytes(needs: Callable[[Sizes], int], sizes: Sizes, what: str) -> None:
    """Raises ConfigError, naming the key of `sizes` that drives it, where `what` needs more memory
    than the machine has: for commands whose settings are no Config. A typical value is 1."""
    _refuse(sizes, needs, dict.fromkeys(sizes, 1), what, {}, total_memory(), "this machine has")


def _check(
    sizes: Sizes,
    needs: Callable[[Sizes], int],
    what: str,
    names: Mapping[str, str],
    gpu: bool,
) -> None:
    limit, owner = total_memory(), "this machine has"
    if gpu and (limit is None or limit < _LARGEST_GPU):
        limit, owner = _LARGEST_GPU, "the largest GPU has"
    _refuse(sizes, needs, _TYPICAL, what, names, limit, owner)


def _refuse(
    sizes: Sizes,
    needs: Callable[[Sizes], int],
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


def _shards(sizes: Sizes, needs: Callable[[Sizes], int], limit: int) -> str:
    """A hint with the number of shards that would make a batch fit; empty where none would."""
    batch = sizes.get("training.batch_size", 1)
    for shards in range(2, min(batch, _MOST_SHARDS) + 1):
        if batch % shards == 0 and needs({**sizes, "training.shards": shards}) <= limit:
            return f"; training.shards={shards} would do"
    return ""


def _check_time(sizes: Sizes, names: Mapping[str, str], loops: int) -> None:
    """Raises ConfigError where a first step, or a first prompt, would take minutes or for ever."""
    if sizes.get("task.depth", 0) > MOST_DEPTH:
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


def _short(number: int) -> str:
    """A number as text: 1,000,000, or a power of ten where it is long."""
    text = f"{number:,}"
    return text if len(text) <= 21 else f"about 1e{len(str(number)) - 1}"


def _in_bytes(number: int) -> str:
    for unit, size in (("GB", 10**9), ("TB", 10**12), ("PB", 10**15)):
        if number < 1000 * size:
            return f"{number / size:.3g} {unit}"
    return f"{_short(number // 10**15)} PB"
