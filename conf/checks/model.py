"""Checks of a model's settings and of their combinations, without torch."""

from __future__ import annotations

from itertools import cycle, islice

from ..mistakes import ConfigError
from ..schema import ModelConfig, TaskConfig
from ..setting import check_settings

_LOOPED = (  # settings of looped models alone, with the value that means none
    ("connectivity", None),
    ("norm", "in_loop"),
    ("prelude", 0),
    ("coda", 0),
    ("lanes", 0),
)


def check_model(model: ModelConfig) -> None:
    """Ranges and combinations; raises ConfigError for the first that is impossible."""
    check_settings("model.", model)
    _check_heads(model)
    _check_attention(model)
    _check_family(model)
    _check_connectivity(model)
    _check_linear_attention(model)
    _check_norm(model)
    _check_scaling(model)


def check_prompts_fit(model: ModelConfig, task: TaskConfig) -> None:
    """Raises ConfigError where the model cannot read the task's prompts."""
    if model.injection == "linear_attention" and model.n_embd != task.dims:
        raise ConfigError(
            "model.n_embd",
            f"must be task.dims={task.dims} with model.injection=linear_attention, "
            f"got {model.n_embd}",
        )
    if task.points > model.n_positions:
        raise ConfigError(
            "task.points",
            f"is {task.points}, more than the model has positions "
            f"(model.n_positions={model.n_positions})",
        )
    text = task.is_text
    length, tokens = (
        (model.n_positions, task.points)
        if text
        else (2 * model.n_positions + 1, 2 * task.points - 1)
    )
    window = length // 4
    if model.attention == "sliding" and window >= tokens:
        raise ConfigError(
            "model.attention",
            f"cannot be sliding: a window of {window} tokens, a quarter of what "
            f"model.n_positions={model.n_positions} can hold, hides none of {tokens}",
        )


def check_has_states(model: ModelConfig) -> None:
    """Raises ConfigError for a model without hidden states, which cannot be probed."""
    if model.injection == "linear_attention":
        raise ConfigError(
            "run",
            "is a loop of linear attention, whose states are the labels themselves: there "
            "is nothing hidden to be measured",
        )


def _check_heads(model: ModelConfig) -> None:
    if model.n_embd % model.n_head:
        raise ConfigError(
            "model.n_embd", f"must be a multiple of model.n_head={model.n_head}, got {model.n_embd}"
        )
    size = model.n_embd // model.n_head
    if model.block != "gpt2" and size % 2:
        raise ConfigError(
            "model.n_head",
            f"leaves heads of {size} numbers: model.block={model.block} rotates pairs of them",
        )


def _check_attention(model: ModelConfig) -> None:
    """Each kind of attention has its own setting, which no other kind has."""
    kinds = (("grouped", "n_kv", 0), ("latent", "rank", 0), ("sliding", "pattern", ""))
    for attention, name, default in kinds:
        value = getattr(model, name)
        if model.attention == attention and value == default:
            raise ConfigError(f"model.{name}", f"must be given with model.attention={attention}")
        if model.attention != attention and value != default:
            raise ConfigError(
                f"model.{name}", f"has no meaning with model.attention={model.attention}"
            )
    if model.n_kv and model.n_head % model.n_kv:
        raise ConfigError(
            "model.n_kv", f"must divide model.n_head={model.n_head}, got {model.n_kv}"
        )
    if set(model.pattern) - {"S", "L"}:
        raise ConfigError(
            "model.pattern",
            "must be made of the letters S (a quarter of the tokens) and L (all of them), "
            f"got {model.pattern!r}",
        )
    if not model.pattern:
        return
    if "S" not in islice(cycle(model.pattern), model.n_layer - 1):
        raise ConfigError(
            "model.pattern",
            f"{model.pattern} makes no layer of {model.n_layer} short: the last sees all tokens",
        )
    if model.n_positions < 2:
        raise ConfigError("model.n_positions", "must be at least 2 with model.attention=sliding")


def _check_family(model: ModelConfig) -> None:
    if model.family == "looped":
        return
    if model.injection != "none":
        raise ConfigError(
            "model.injection",
            f"cannot be {model.injection!r} with model={model.family}: only looped models inject "
            "the prompt anew",
        )
    for name, default in _LOOPED:
        if getattr(model, name) != default:
            raise ConfigError(
                f"model.{name}", f"has no meaning with model={model.family}: of looped models alone"
            )


def _check_connectivity(model: ModelConfig) -> None:
    """Settings that contradict a connectivity or the lanes."""
    if model.connectivity is not None:
        if model.injection != "none":
            raise ConfigError(
                "model.injection",
                f"cannot be {model.injection!r} with model.connectivity={model.connectivity}, "
                "which says itself how prompt and last loop meet; it must be none",
            )
        for name, default in _LOOPED[1:]:
            if getattr(model, name) != default:
                raise ConfigError(
                    f"model.{name}",
                    f"has no meaning with model.connectivity={model.connectivity}, whose loop is "
                    "normed and stands alone",
                )
    if model.lanes and model.injection != "none":
        raise ConfigError(
            "model.injection",
            f"cannot be {model.injection!r} with model.lanes: the lanes carry the prompt; it must "
            "be none",
        )


def _check_linear_attention(model: ModelConfig) -> None:
    """Settings of blocks and loops that a loop of linear attention does not have."""
    if model.injection != "linear_attention":
        return
    for name in ("n_layer", "n_head", "block", "attention", "norm", "prelude", "coda",
                 "residual_scaling"):  # fmt: skip
        default = 1 if name == "n_head" else getattr(ModelConfig, name)
        if getattr(model, name) != default:
            raise ConfigError(
                f"model.{name}",
                f"must be {default} with model.injection=linear_attention, which has no block",
            )


def _check_norm(model: ModelConfig) -> None:
    """A stream without a norm must be bounded by what is added to it."""
    if model.norm == "in_loop":
        return
    if model.lanes:
        raise ConfigError("model.norm", "must be in_loop with model.lanes, which add up otherwise")
    if model.injection == "multiply":
        raise ConfigError(
            "model.injection",
            "cannot be 'multiply' with model.norm=at_readout: a stream that is multiplied at each "
            "loop and never normed grows beyond bounds",
        )
    if model.injection == "concat":
        raise ConfigError(
            "model.injection",
            "cannot be 'concat' with model.norm=at_readout: a projection that starts as the prompt "
            "forgets the stream at each loop",
        )
    if model.injection == "add" and model.residual_scaling != "linear":
        raise ConfigError(
            "model.residual_scaling",
            f"must be linear with model.norm=at_readout and model.injection=add, got "
            f"{model.residual_scaling!r}: a prompt added at each of R loops to a stream that is "
            "never normed must be scaled by 1/R",
        )


def _check_scaling(model: ModelConfig) -> None:
    if model.residual_factor != 1 and model.residual_scaling != "factored":
        raise ConfigError(
            "model.residual_factor",
            f"is the λ of model.residual_scaling=factored, not of {model.residual_scaling}",
        )
