"""Activation checkpointing over loops: the same steps, of which less is stored."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from looplab.conf.schema import Config, LoopsConfig, ModelConfig
from looplab.training.step import Trainer
from tests.training.tiny import drawn, make_trainer, tiny

_SHAPES: dict[str, dict[str, Any]] = {
    "add": {},
    "lanes": {"injection": "none", "lanes": 2, "prelude": 1, "coda": 1},
    "FLT": {"injection": "none", "connectivity": "FLT", "block": "flt"},
    "standard": {"family": "standard", "n_layer": 6, "injection": "none"},
}


@pytest.mark.parametrize("shape", _SHAPES)
def test_the_steps_are_the_same(shape: str, tmp_path: Path) -> None:
    weights = []
    for recompute in (False, True):
        trainer = make_trainer(_config(tmp_path, shape, recompute=recompute, log_norms=True))
        for step in range(3):
            trainer.update(step)
        weights.append(torch.cat([p.detach().flatten() for p in trainer.parameters]))
    torch.testing.assert_close(*weights, rtol=0, atol=1e-6)


def test_what_is_stored_does_not_grow_with_the_activations_of_loops(tmp_path: Path) -> None:
    """Five more loops are five more states, [8, 9, 16], and what they read at the predictions."""
    sizes = {
        recompute: [
            _stored(make_trainer(_config(tmp_path, "add", loops=b, recompute=recompute)))
            for b in (3, 8)
        ]
        for recompute in (False, True)
    }
    growth = {recompute: (more - less) / 5 for recompute, (less, more) in sizes.items()}
    assert growth[True] < growth[False] / 4


def _config(folder: Path, shape: str, loops: int = 4, **training: Any) -> Config:
    model = replace(ModelConfig(n_embd=16, n_head=2, n_positions=5), **_SHAPES[shape])
    config = tiny(folder, optimizer="adamw", **training)
    return replace(config, model=model, loops=LoopsConfig(loops, 2, "all"))


def _stored(trainer: Trainer) -> int:
    """The bytes that a forward pass stores for the backward pass, each storage once."""
    stored: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        stored[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        kept.append(tensor)
        return tensor

    kept: list[Tensor] = []
    stage = trainer.curriculum(10**6)
    drawn(trainer, 0)
    with saved_tensors_hooks(keep, lambda tensor: tensor):
        trainer.losses(stage, trainer.batch(stage, 0))
    return sum(stored.values())
