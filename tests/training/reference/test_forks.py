"""Checkpoints as forks of the reference codes and their tools write them: the same weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
import yaml
from torch import Tensor

from looplab.training import import_checkpoint
from tests.models.reference_codes import leiay_weights
from tests.training.reference.reference_runs import leiay_config

Weights = dict[str, Tensor]
CONTAINERS: dict[str, Callable[[Weights], dict[str, Any]]] = {
    "Lightning": lambda w: {"state_dict": prefixed("model.", w), "global_step": 5, "epoch": 1},
    "DataParallel": lambda w: {"model": prefixed("module.", w), "step": 5},
    "compiled, DDP": lambda w: {"net": prefixed("module._orig_mod.", w), "step": 5},
    "FSDP": lambda w: {"module": within("_fsdp_wrapped_module.", w), "step": 5},
    "half": lambda w: {"model": {name: part.half() for name, part in w.items()}, "step": 5},
}


def prefixed(prefix: str, weights: Weights) -> Weights:
    return {prefix + name: part for name, part in weights.items()}


def within(prefix: str, weights: Weights) -> Weights:
    """With the backbone alone wrapped."""
    return {name.replace("_backbone.", f"_backbone.{prefix}"): w for name, w in weights.items()}


def write(folder: Path, config: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "config.yaml").write_text(config or yaml.dump(leiay_config()), encoding="utf-8")
    return folder / "state.pt"


def assert_imported(path: Path, tmp_path: Path, **given: Any) -> Any:
    """Its weights are those of the plain file."""
    torch.save({"model_state_dict": leiay_weights(1), "train_step": 5}, write(tmp_path / "plain"))
    plain = import_checkpoint(tmp_path / "plain" / "state.pt", {}, str(tmp_path / "plain_runs"))
    run = import_checkpoint(path, given, str(tmp_path / "runs"))
    assert run.step == 5
    for name, part in plain.model.state_dict().items():
        torch.testing.assert_close(run.model.state_dict()[name], part, rtol=1e-3, atol=1e-4)
    return run.config


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_container_and_a_wrapper(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / "theirs")
    torch.save(CONTAINERS[name](leiay_weights(1)), path)
    assert_imported(path, tmp_path)


def test_safetensors(tmp_path: Path) -> None:
    path = write(tmp_path / "theirs").with_name("model_5.safetensors")
    safetensors.torch.save_file(leiay_weights(1), path)
    assert_imported(path, tmp_path)


def test_numbers_in_a_configuration(tmp_path: Path) -> None:
    """They may be written as people write them."""
    text = yaml.dump(leiay_config()).replace("learning_rate: 0.0003", "learning_rate: 3e-4")
    path = write(tmp_path / "theirs", text.replace("train_steps: 500000", "train_steps: 5e5"))
    torch.save({"model_state_dict": leiay_weights(1), "train_step": 5}, path)
    assert assert_imported(path, tmp_path).training.learning_rate == 3e-4
