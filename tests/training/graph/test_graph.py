"""Captured steps are the steps, and a step's body holds nothing that a CUDA graph cannot: no
reading back, no data from the host, and nothing of the host that changes from step to step."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from looplab.conf.schema import Config, ModelConfig, TaskConfig
from looplab.training.graph import GraphRunner
from looplab.training.run_folder.checkpoint import Checkpoint
from looplab.training.step import Trainer
from tests.tasks import small_tables
from tests.training.graph.captured import (
    RULE,
    VARIANTS,
    BrokenRecorder,
    captured_trainer,
    everything,
    tensors_in,
    variant,
)
from tests.training.tiny import assert_same_bits, copied, make_trainer, tiny


@pytest.mark.parametrize("name", VARIANTS)
def test_captured_is_uncaptured(name: str, tmp_path: Path) -> None:
    """To the bit, after every step: weights, Adam's state, gradients and totals. A tape knows
    nothing of Python: what the host changes and the device is not told stays as it was."""
    config = variant(name, tmp_path)
    plain, (taped, recorder) = make_trainer(config), captured_trainer(config)
    for step in range(22):
        plain.update(step)
        taped.update(step)
        assert_same_bits(everything(taped), everything(plain))
    assert plain.fetch() == taped.fetch()
    assert "replay" in recorder.events


def test_a_checkpoint_is_gone_on_from_without_the_old_graph(tmp_path: Path) -> None:
    """Loading puts Adam's state elsewhere, and a graph would write where it was."""
    config = tiny(tmp_path, **RULE)
    plain, (taped, recorder) = make_trainer(config), captured_trainer(config)
    for step in range(5):
        plain.update(step)
    checkpoint = Checkpoint(5, copied(plain.state()))
    for step in range(9):
        taped.update(step)
    for step in range(5, 15):
        plain.update(step)
    taped.load(checkpoint)
    assert taped.runner.replay is None
    for step in range(5, 15):
        taped.update(step)
    assert_same_bits(taped.state(), plain.state())
    assert recorder.events.count("capture") == 2


def test_where_capturing_fails_training_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = variant("jacobian", tmp_path)
    plain, taped, recorder = make_trainer(config), make_trainer(config), BrokenRecorder()
    taped.runner = GraphRunner(recorder)
    for step in range(22):
        plain.update(step)
        taped.update(step)
    assert_same_bits(everything(taped), everything(plain))
    assert recorder.events.count("capture") == 1
    assert not {id(generator) for generator in recorder.held} & {
        id(generator) for generator in taped.generators
    }
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert "not captured as a CUDA graph" in out
    assert "not permitted when stream is capturing" in out


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
    "curves": {},
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
    return replace(config, task=TaskConfig(task, 3, 5, distinct, settings), model=_MODELS[model])


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
    ("curves", "add", 0, {"targets": "posterior_mean"}),
]


@pytest.mark.parametrize(("task", "model", "distinct", "training"), CASES)
def test_a_body_can_be_captured(
    task: str, model: str, distinct: int, training: dict[str, Any], tmp_path: Path
) -> None:
    trainer = _trained(_config(tmp_path, task, model, distinct, **training))
    with watched():
        _body(trainer)
