"""The loop of a model's shape."""

from collections.abc import Callable
from typing import TypeVar

from looplab.conf.plugins import check_class, registering
from looplab.conf.schema import ModelConfig
from looplab.conf.setting import hints_of, names_of

from ..spec import ModelSpec
from .connected import ConnectedLoop
from .linear_attention import LinearAttentionLoop
from .loop import LayerLoop, Loop, SharedLoop
from .recurrent import LanesLoop, RecurrentLoop

_REGISTRY: dict[str, type[Loop]] = {}
_AnyLoop = TypeVar("_AnyLoop", bound=type[Loop])


def register_loop(name: str) -> Callable[[_AnyLoop], _AnyLoop]:
    """Register the class below, a Loop that is constructed from the shape of its blocks alone.

    Parameters
    ----------
    name : str
        That `model.injection` takes.

    Raises
    ------
    ConfigError
        For a name that is taken, or a class that is no Loop; it says in which file and line.

    Examples
    --------
    >>> from looplab import register_loop
    >>> from looplab.models.loops.loop import SharedLoop
    >>> @register_loop("product")
    ... class Product(SharedLoop):
    ...     def __init__(self, spec):
    ...         super().__init__(spec, "multiply")
    """

    def add(cls: _AnyLoop) -> None:
        check_class(cls, Loop)
        _REGISTRY[name] = cls

    names = names_of(hints_of(ModelConfig)["injection"])
    return registering("model.injection", name, name in names, add, guards=["__init__"])


def loop_class(injection: str) -> type[Loop] | None:
    """The class registered under a name; None for the loops of the project."""
    return _REGISTRY.get(injection)


def make_loop(spec: ModelSpec) -> Loop:
    """The loop of this shape, uninitialised."""
    block = spec.block_spec()
    if spec.family == "standard":
        return LayerLoop(block)
    if spec.family == "tied":
        return SharedLoop(block, "none")
    if spec.injection == "linear_attention":
        return LinearAttentionLoop(block)
    registered = loop_class(spec.injection)
    if registered is not None:
        return registered(block)
    if spec.connectivity is not None:
        return ConnectedLoop(block, spec.connectivity)
    if spec.lanes:
        return LanesLoop(block, spec.lanes, spec.loops, spec.prelude, spec.coda)
    # Yang's loop; RecurrentLoop is the general one, with its own norms, prelude and coda.
    plain = spec.injection != "concat" and spec.norm == "in_loop"
    if plain and not (spec.prelude or spec.coda):
        return SharedLoop(block, spec.injection)
    return RecurrentLoop(block, spec.injection, spec.norm, spec.prelude, spec.coda)
