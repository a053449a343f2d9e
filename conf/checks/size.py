"""Sizes that are far beyond this machine are refused before anything is allocated, in a line that
names the setting. No torch here.

check_size(config)          # ConfigError: model.n_embd is 1,000,000: …
"""

from __future__ import annotations

import os

from ..mistakes import ConfigError
from ..schema import Config

_FAR = 4  # times the machine's memory: this is an estimate, and a GPU has a memory of its own
_LEAST = 2**40  # bytes
_MOST_PASSES = 1_000_000  # sequential passes through a layer; more would take minutes a step
_MOST_DEPTH = 40  # of decision trees, with a trillion leaves
_TYPICAL = {
    **{"task.dims": 20, "task.points": 41, "task.hidden": 100, "task.depth": 4},
    **{"model.n_layer": 12, "model.n_embd": 256, "model.n_positions": 101, "model.rank": 256},
    **{"model.prelude": 4, "model.coda": 4, "loops.b": 20, "training.batch_size": 64},
    **{"evaluation.prompts": 1280, "evaluation.resamples": 1000, "evaluation.max_loops": 100},
    **{"evaluation.loops": 100, "evaluation.batch_size": 128},
}


def check_size(config: Config, runs: int = 1) -> None:
    """Raises ConfigError where a step of a training, or of `runs` together, or an evaluation would
    take far more memory than the machine has, or minutes."""
    task, model, loops, training = config.task, config.model, config.loops, config.training
    evaluation, own = config.evaluation, config.task.settings
    layers = model.n_layer + model.prelude + model.coda
    passes = max(
        loops.b if model.family != "standard" else 1,
        *(n for n in (evaluation.loops, evaluation.max_loops) if isinstance(n, int)),
        1,
    )
    leaves = 2 ** min(own.get("depth", 0), 2 * _MOST_DEPTH)
    block = 12 * model.n_embd**2 + 3 * model.n_embd * model.rank
    weights = 16 * (layers * block + model.n_embd * (task.dims + 2 * model.n_positions))
    batch = -(-training.batch_size // training.shards)
    reach = 1 if model.family == "standard" else min(loops.T, loops.b)
    activations = 80 * batch * 2 * task.points * model.n_embd * layers * reach
    prompt = task.points * task.dims + 7 * leaves + own.get("hidden", 0) * (task.dims + task.points)
    evaluated = evaluation.prompts * (task.points * task.dims + passes + evaluation.resamples)
    need = 8 * (batch * prompt + evaluated) + runs * (weights + activations)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if os.name == "posix" else 0
    if need <= max(_FAR * memory, _LEAST) and passes * layers <= _MOST_PASSES:
        return
    values = {f"task.{key}": value for key, value in own.items()}
    for group in ("task", "model", "loops", "training", "evaluation"):
        values |= {f"{group}.{key}": value for key, value in vars(getattr(config, group)).items()}
    sizes = {key: values[key] for key in _TYPICAL if isinstance(values.get(key), int)}
    key = max(sizes, key=lambda name: sizes[name] / _TYPICAL[name])
    why = f"a step needs some {need / 1e12:,.0f} TB of memory"
    if passes * layers > _MOST_PASSES:
        why = f"one prediction takes {passes * layers:,} passes through a layer"
    raise ConfigError(key, f"is {sizes[key]:,}: {why}, far more than this machine can do")
