"""A step's body holds nothing that a CUDA graph cannot: no reading back, no data from the host, and
nothing of the host that changes from step to step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Generator, Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from looplab.conf.schema import Config, ModelConfig, TaskConfig
from looplab.training.step import Trainer
from tests.tasks import small_tables
from tests.training.graph.captured import Tape, tensors_in
from tests.training.tiny import make_trainer, tiny

# Read by the host, of a shape that depends on numbers, or made of the host's data.
_FORBIDDEN = {
    *("_local_scalar_dense", "item", "is_nonzero", "equal", "allclose", "lift_fresh", "lift"),
    *("nonzero", "nonzero_static", "argwhere", "masked_select", "bincount", "repeat_interleave"),
    *("unique_dim", "_unique", "_unique2", "unique_consecutive", "unique_dim_consecutive"),
    *("_pin_memory", "set_", "resize_", "histc"),
}
_SETTINGS: dict[str, dict[str, Any]] = {
    "linear": {},
    "noisy_linear": {"noise_std": 0.5, "renormalize": True},
    "sparse_linear": {"sparsity": 2},
    "decision_tree": {"depth": 3},
    "relu_network": {"hidden": 4},
    "halfspaces": {"vary_features": True, "shared_factor": 1.0, "threshold": 0.5, "flips": 0.2},
    "tables": {"tables": ("alpha", "gamma"), "held_out": ""},
}
_MODELS = {
    "add": ModelConfig("looped", 1, 16, 2, 5),
    "standard": ModelConfig("standard", 2, 16, 2, 5, injection="none"),
    "LT_ai": ModelConfig(
        "looped", 2, 16, 2, 5, "none", "flt", "grouped", n_kv=1, connectivity="LT_ai"
    ),
    "FLT": ModelConfig("looped", 2, 16, 2, 5, "none", "flt", "latent", rank=4, connectivity="FLT"),
    "recurrent": ModelConfig(
        "looped", 2, 16, 2, 5, "concat", "llama", "sliding", pattern="S", prelude=1, coda=1
    ),
    "lanes": ModelConfig("looped", 1, 16, 2, 5, "none", "llama", lanes=2),
    "unnormed": ModelConfig(
        "looped", 1, 16, 2, 5, "none", norm="at_readout", residual_scaling="factored"
    ),
}


class _Capturable(TorchDispatchMode):
    """Fails at what a CUDA graph cannot hold, seen from a CPU."""

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.removeprefix("aten::")
        assert name not in _FORBIDDEN, f"{name} in a step"
        if name.startswith(("index", "_index", "_unsafe_index")):
            for index in tensors_in(args[1:]):
                assert index.dtype not in (torch.bool, torch.uint8), f"{name} by a mask"
        if name == "_to_copy":
            assert kwargs.get("device") in (None, args[0].device), "a copy across devices"
        return func(*args, **kwargs)


def _config(folder: Path, task: str, model: str, distinct: int, **training: Any) -> Config:
    config = tiny(folder, clip=0.5, weight_decay=0.1, warmup=5, decay=0.5, shards=2, **training)
    settings = _SETTINGS[task]
    if "tables" in settings:
        settings = settings | {"data_dir": str(small_tables.write(folder))}
    return replace(
        config,
        task=TaskConfig(task, 3, 5, distinct, settings),
        model=_MODELS[model],
    )


def _trained(config: Config) -> Trainer:
    """After three steps, as when it is captured, in a stage that hides a dimension."""
    trainer = make_trainer(config)
    for step in range(3):
        trainer.update(step)
    _body(trainer)  # a stage's first steps are not captured
    return trainer


@contextmanager
def watched() -> Iterator[None]:
    """Also, tensors made without a device are made elsewhere, as a CPU's are on a GPU."""
    with torch.device("meta"), _Capturable():  # type: ignore[no-untyped-call]
        yield


def _body(trainer: Trainer) -> None:
    trainer.compute(replace(trainer.curriculum(3), dims=2))


CASES: list[tuple[str, str, int, dict[str, Any]]] = [
    *((task, "add", 0, {}) for task in _SETTINGS),
    *(("linear", model, 0, {}) for model in _MODELS if model != "add"),
    ("linear", "add", 7, {"optimizer": "muon", "ema_decay": 0.9}),
    ("noisy_linear", "add", 0, {"targets": "posterior_mean"}),
]


@pytest.mark.parametrize(("task", "model", "distinct", "training"), CASES)
def test_a_body_can_be_captured(
    task: str, model: str, distinct: int, training: dict[str, Any], tmp_path: Path
) -> None:
    """And two steps of a stage are the same work, with the same numbers from the host."""
    trainer = _trained(_config(tmp_path, task, model, distinct, **training))
    with watched():
        _body(trainer)
    assert _tape(trainer, 3) == _tape(trainer, 4)


def _tape(trainer: Trainer, step: int) -> list[tuple[str, str]]:
    """The operations of a step's body, with what the host gives them."""
    trainer.prepare(step)
    with Tape() as tape:
        _body(trainer)
    return [(str(func), _plain((args, kwargs))) for func, args, kwargs, _ in tape.calls]


def _plain(values: object) -> str:
    """Arguments with tensors by shape and kind alone, generators by their device."""
    values = tree_map_only(Tensor, lambda tensor: (tensor.shape, tensor.dtype), values)
    return str(tree_map_only(Generator, lambda generator: generator.device, values))


@pytest.mark.parametrize(
    "mistake", [lambda x: x.sum().item(), lambda x: x[x > 0], lambda x: x + torch.ones(3)]
)
def test_what_cannot_be_captured_is_seen(mistake: Callable[[Tensor], object]) -> None:
    x = torch.randn(3)
    with watched(), pytest.raises((AssertionError, RuntimeError)):
        mistake(x)
