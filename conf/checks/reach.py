"""What is beyond a machine by far is refused before anything is written: by its memory, or by the
time of one step, or of all. Estimates are least ones, so that nothing is refused that could run: at
the rate of a card, and in twice the memory that is there. No torch here.

check_reach(config)                                   # a training, and the evaluation that follows
check_reach(config, "evaluation")
"""

import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Literal, NamedTuple

from ..build import flatten
from ..files import own_settings
from ..mistakes import ConfigError
from ..schema import Config, TaskConfig

Part = Literal["training", "evaluation"]
_MARGIN = 2  # times the memory there is
_HOUR = 3600.0
_YEAR = 365 * 24 * _HOUR
_RATE = 2e15  # FLOPs a second, more than a card reaches
_PASS = 1e-5  # seconds of a layer's pass, at least, however small it is
_KEPT = 8  # bytes that a layer's pass keeps for each number of the stream, at least
_DEEPEST = 60  # of a tree, whose leaves are a power: deeper ones are as much beyond


class Need(NamedTuple):
    """Bytes of memory, seconds of a step or a batch, and those of all of them."""

    memory: float
    step: float
    total: float


def check_reach(config: Config, *parts: Part, memory: float = 0.0) -> None:
    """Raises ConfigError where the parts, both by default, are beyond a machine of so many bytes
    (0: this one) by far. It names the setting whose default would need the least."""
    memory = memory or float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    values = _values(config)
    defaults = _values(Config(task=TaskConfig(config.task.name)))
    limits = Need(memory * _MARGIN, _HOUR, _YEAR)
    for part in parts or ("training", "evaluation"):
        need = _needs(values)[part]
        excess = [amount / limit for amount, limit in zip(need, limits, strict=True)]
        if max(excess) <= 1:
            continue
        kind = excess.index(max(excess))
        needed = {}
        for key, default in defaults.items():
            if isinstance(values[key], int) and values[key] != default:
                # One setting at a time goes back to its default: the largest fall tells the cause.
                needed[key] = _needs(values | {key: default})[part][kind]
        # Where several would need the least alike, as two that are as far, the largest of them.
        cause = min(needed, key=lambda key: (needed[key], -values[key]))
        gigabytes = f"{_short(need.memory / 1e9)} GB"
        least = (
            f"{gigabytes} of memory, and this machine has {memory / 1e9:.0f}",
            f"{_short(need.step / _HOUR)} hours for a single step",
            f"{_short(need.total / _YEAR)} years",
        )[kind]
        problem = f"is {values[cause]}, which takes at least {least}"
        raise ConfigError(cause.replace(".settings.", "."), problem)


def _short(number: float) -> str:
    return f"{number:,.0f}" if number < 1e6 else f"{number:.0e}"


def _values(config: Config) -> dict[str, Any]:
    """All settings by key, with those of the task that the configuration leaves out."""
    defaults = own_settings(config.task.name) or {}
    values = {f"task.settings.{key}": value for key, value in defaults.items()}
    return values | flatten(asdict(config))


def _needs(values: Mapping[str, Any]) -> dict[Part, Need]:
    """What a training and its evaluation need at least, by all settings."""
    task = values["task.name"]
    width = values["model.n_embd"]
    dims = values["task.dims"]
    points = values["task.points"]
    layers = values["model.n_layer"]
    loops = values["loops.b"]
    if values["model.family"] == "standard":
        loops = 1
    # Of a prompt.
    tokens = 2 * points - 1
    numbers = float(points * (dims + 1))
    inputs = dims
    if task == "language":
        tokens = numbers = points
        is_bytes = values["task.settings.tokens"] == "bytes"
        inputs = 256 if is_bytes else values["task.settings.vocabulary"]
    if task in ("relu_network", "mixture"):
        numbers += dims * values["task.settings.hidden"]
    if task in ("decision_tree", "mixture"):
        numbers += 2 ** min(values["task.settings.depth"], _DEEPEST)
    lanes = values["model.lanes"]
    layer = 2 * width * (width + (values["model.n_hidden"] or 4 * width))  # weights, at least
    stacks = layers + values["model.prelude"] + values["model.coda"]
    weights = stacks * layer + (inputs + values["model.n_positions"]) * width + loops * lanes**2

    def seconds(prompts: float, passes: float) -> float:
        # FLOPs of a token in a layer, as models/flops.py counts them.
        of_pass = 2 * layer + 4 * tokens * width
        flops = prompts * tokens * (passes * of_pass + 2 * inputs * width)
        return flops / _RATE + passes * _PASS

    shards = values["training.shards"]
    window = min(values["loops.T"], loops)
    batch = values["training.batch_size"] / shards
    # Layer passes whose activations wait for the backward pass.
    kept = 1 if values["training.recompute"] else layers * window
    stream = batch * tokens * width * max(lanes, 1)
    step = shards * seconds(batch, layers * (loops + 2 * window))
    # Weights, gradient and one copy more: Muon's state is one, Adam's two.
    with_state = 3 * weights  # their gradient, and the optimiser's state
    # Four bytes a float32; the stream's activations are counted in _KEPT bytes.
    memory = 4 * (batch * numbers + with_state) + _KEPT * kept * stream
    training = Need(memory, step, step * values["training.steps"])
    prompts = values["evaluation.prompts"]
    resamples = values["evaluation.resamples"]
    batch = min(values["evaluation.batch_size"], prompts)
    if values["model.family"] != "standard":
        keys = ["evaluation.loops", "evaluation.max_loops"]
        if values["evaluation.loops"] == "auto":
            keys.append("evaluation.halt_by")
        for key in keys:
            if isinstance(values[key], int):
                loops = max(loops, values[key])
    step = seconds(batch, layers * loops)
    of_prompt = 2 * numbers + 3 * loops
    # Errors and both changes by loop in float32; the bootstrap's counts in float64.
    memory = 4 * (prompts * of_prompt + weights) + 8 * resamples * prompts
    evaluation = Need(memory, step, step * prompts / batch)
    return {"training": training, "evaluation": evaluation}
