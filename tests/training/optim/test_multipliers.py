"""Rates and epsilon of a stack whose branches shrink with its depth."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reloop.conf.schema import Config, ModelConfig
from reloop.models.blocks.parameters import Role
from reloop.training import train
from reloop.training.optim.optimizers import describe_groups, multiplier
from tests.training.tiny import tiny

_OUTSIDE = Role("embedding", (16,))


def _factored(layers: int) -> ModelConfig:
    return ModelConfig(n_layer=layers, residual_scaling="factored", residual_factor=3.0)


@pytest.mark.parametrize("kind", ["matrix", "norm", "bias"])
@pytest.mark.parametrize(("layers", "wanted"), [(3, 2.0), (12, 1.0), (48, 0.5), (27, 2 / 3)])
def test_factored_stacks_take_the_root_of_their_depth(
    kind: str, layers: int, wanted: float
) -> None:
    """Of 12 layers over theirs, whatever the parameter is and the factor of the branches; nothing
    outside the stack."""
    assert multiplier(_factored(layers), Role(kind, (16,), layer=0)) == pytest.approx(wanted)
    assert multiplier(_factored(layers), Role(kind, (16,), layer=2)) == pytest.approx(wanted)
    assert multiplier(_factored(layers), _OUTSIDE) == 1.0


@pytest.mark.parametrize("scaling", ["none", "sqrt", "linear"])
def test_no_other_scaling_has_any(scaling: Any) -> None:
    model = ModelConfig(n_layer=48, residual_scaling=scaling)
    assert multiplier(model, Role("matrix", (16,), layer=0)) == 1.0
    assert describe_groups(model) == ""


def test_they_are_said_where_there_are_any() -> None:
    assert describe_groups(_factored(36)) == (
        "rates x 0.577 and epsilon x 0.577 in the looped stack (the root of 12 / 36 layers)"
    )
    assert describe_groups(_factored(12)) == ""


def _with(config: Config, model: ModelConfig) -> Config:
    return replace(config, model=replace(model, n_embd=16, n_head=2, n_positions=5))


def test_a_run_says_them_at_its_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(_with(tiny(tmp_path, steps=1), ModelConfig()))
    assert "rates x" not in capsys.readouterr().out
    train(_with(tiny(tmp_path, steps=1), _factored(3)))
    lines = capsys.readouterr().out.splitlines()
    assert "  " + describe_groups(_factored(3)) in lines
