"""Combinations of a model's settings that are impossible: key and problem of each. No torch here.

for key, problem in model_mistakes(config.model): ...
"""

from collections.abc import Iterator
from itertools import cycle, islice

from ..mistakes import ConfigError
from ..schema import ModelConfig, TaskConfig
from ..setting import check_settings

# Settings of blocks and of other loops, which a loop of linear attention does not have.
_OF_BLOCKS = (
    "n_layer",
    "n_head",
    "tokens",
    "block",
    "n_hidden",
    "rope_base",
    "attention",
    "norm",
    "prelude",
    "coda",
    "residual_scaling",
    "block_norm",
)
_SPECIAL = ("norm", "prelude", "coda", "lanes")  # not of a loop with a connectivity
_OWN = (("grouped", "n_kv"), ("latent", "rank"), ("sliding", "pattern"))  # settings by attention


def check_model(model: ModelConfig) -> None:
    """Raises ConfigError for the first setting out of its range and the first combination that is
    impossible."""
    check_settings("model.", model)
    for name, problem in model_mistakes(model):
        raise ConfigError(f"model.{name}", problem)


def model_mistakes(model: ModelConfig) -> Iterator[tuple[str, str]]:
    """The setting and the problem of each impossible combination."""
    if model.n_embd % model.n_head:
        yield "n_embd", f"must be a multiple of model.n_head={model.n_head}, got {model.n_embd}"
    if model.block != "gpt2" and (size := model.n_embd // model.n_head) % 2:
        yield "n_head", f"leaves heads of {size} numbers: model.block={model.block} rotates pairs"
    if model.block == "gpt2" and model.rope_base != ModelConfig.rope_base:
        yield "rope_base", "has no meaning with model.block=gpt2, whose positions are learned"
    if model.block == "sandwich" and model.block_norm == "post":
        yield "block_norm", "cannot be post with model.block=sandwich, which norms at both places"
    if model.residual_scaling in ("deepnorm", "deeploop") and model.block_norm != "post":
        yield "residual_scaling", f"cannot be {model.residual_scaling} with model.block_norm=pre"
    yield from _attention_mistakes(model)
    if model.family != "looped" and model.injection != "none":
        yield (
            "injection",
            f"cannot be {model.injection!r} with model={model.family}: only looped models inject "
            "the prompt anew",
        )
    if model.injection != "none" and (model.connectivity or model.lanes):
        other = f"connectivity={model.connectivity}" if model.connectivity else "lanes"
        problem = "which says itself how prompt and last loop meet; it must be none"
        yield "injection", f"cannot be {model.injection!r} with model.{other}, {problem}"
    if model.connectivity:
        for name in _SPECIAL:
            if getattr(model, name) != getattr(ModelConfig, name):
                yield name, f"has no meaning with model.connectivity={model.connectivity}"
    if model.injection == "linear_attention":
        for name in _OF_BLOCKS:
            # One head, although the default is eight: a loop without blocks has none to divide.
            plain = 1 if name == "n_head" else getattr(ModelConfig, name)
            if getattr(model, name) != plain:
                yield name, f"must be {plain} with model.injection=linear_attention, without blocks"
    if model.norm == "at_readout":
        yield from _unnormed_mistakes(model)


def prompt_mistakes(model: ModelConfig, task: TaskConfig) -> Iterator[tuple[str, str]]:
    """Key and problem where the model cannot read the task's prompts."""
    if model.injection == "linear_attention" and model.n_embd != task.dims:
        needed = f"must be task.dims={task.dims} with model.injection=linear_attention"
        yield "model.n_embd", f"{needed}, got {model.n_embd}"
    if task.points > model.n_positions:
        has = f"more than the model has positions (model.n_positions={model.n_positions})"
        yield "task.points", f"is {task.points}, {has}"
    longest = model.n_positions
    tokens = task.tokens_of(task.points)
    if not task.is_text:
        longest = 2 * longest + 1  # the rows of the positions' table (models/spec.py)
    window = longest // 4
    if model.attention == "sliding" and window >= tokens:
        problem = f"a window of {window} tokens, a quarter of the longest prompt, hides none of"
        yield "model.attention", f"cannot be sliding: {problem} {tokens}"


def check_has_states(model: ModelConfig) -> None:
    """Raises ConfigError for a model without hidden states, which cannot be probed."""
    if model.injection == "linear_attention":
        raise ConfigError("run", "is a loop of linear attention: its states are the labels")


def _attention_mistakes(model: ModelConfig) -> Iterator[tuple[str, str]]:
    for attention, name in _OWN:
        if model.attention == attention and not getattr(model, name):
            yield name, f"must be given with model.attention={attention}"
    if model.n_kv and model.n_head % model.n_kv:
        yield "n_kv", f"must divide model.n_head={model.n_head}, got {model.n_kv}"
    if set(model.pattern) - {"S", "L"}:
        letters = "must be made of the letters S (a quarter of the tokens) and L (all of them)"
        yield "pattern", f"{letters}, got {model.pattern!r}"
    # All layers but the last one, which is long whatever its letter.
    elif model.pattern and "S" not in islice(cycle(model.pattern), model.n_layer - 1):
        yield (
            "pattern",
            f"{model.pattern} makes no layer of {model.n_layer} short: the last is long",
        )


def _unnormed_mistakes(model: ModelConfig) -> Iterator[tuple[str, str]]:
    """A stream without a norm must be bounded by what is added to it."""
    if model.lanes:
        yield "norm", "must be in_loop with model.lanes, which add up otherwise"
    # The last norm of a sandwich bounds what goes into the projection.
    unbounded = ("multiply",) if model.block == "sandwich" else ("multiply", "concat")
    if model.injection in unbounded:
        problem = "a stream that is never normed grows beyond bounds, or is forgotten at each loop"
        yield "injection", f"cannot be {model.injection!r} with model.norm=at_readout: {problem}"
    if model.injection == "add" and model.residual_scaling != "linear":
        problem = "a prompt added at each of R loops to a stream that is never normed needs 1/R"
        got = f"and model.injection=add, got {model.residual_scaling!r}: {problem}"
        yield "residual_scaling", f"must be linear with model.norm=at_readout {got}"
