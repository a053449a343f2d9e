"""Folders as the reference codes leave them, with small models in them.

path = leiay_run(tmp_path, family="gpt2_loop")            # its state.pt, a config.yaml beside it
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor

from tests.models.reference_codes import garg_weights, leiay_weights

STEP = 7000
POSITIONS = 45  # of a classifier, whose prompts have 41 pairs
# What a looped checkpoint without a config.yaml needs.
SAID = {
    **{"task": "linear", "task.points": 8, "model": "looped", "model.n_head": 2},
    **{"model.injection": "add", "loops.b": 4, "loops.T": 2},
}


def leiay_config(family: str = "gpt2_loop", **changes: Any) -> dict[str, Any]:
    """As its train.py writes it, all defaults included; `changes` by dotted name, with __."""
    points = {"start": 3, "end": 8, "inc": 2, "interval": 50}
    config = {
        "out_dir": "./results2/x",
        "model": {
            **{"family": family, "n_embd": 16, "n_head": 2, "n_dims": 3, "n_positions": 8},
            **{"n_layer": {"gpt2_tying": 5, "gpt2": 3}.get(family, 1), "pred_type": "regression"},
            **{"pretrained_path": None, "loop_func": "z=f(x*z)"},
        },
        "training": {
            **{"seed": 42, "task_name": "sparse_linear_regression", "sparsity": 2},
            **{"batch_size": 16, "learning_rate": 0.0003, "weight_decay": 0.0},
            **{"train_steps": 500_000, "use_fixed_dataset": False, "add_inputs_embeds": False},
            **{"n_loop_window": 5, "use_ctx": False, "train_size": 0, "resume_id": None},
            "curriculum": {
                "dims": {"start": 2, "end": 3, "inc": 1, "interval": 60},
                "points": points,
                "loops": {"start": 4, "end": 6, "inc": 2, "interval": 70},
            },
        },
        "wandb": {"project": "x", "notes": "", "timestamp": "01/02/2024, 03:04:05"},
    }
    return _changed(config, changes)


def garg_config(**changes: Any) -> dict[str, Any]:
    """As its train.py writes it."""
    config = {
        "inherit": ["base.yaml"],
        "model": {
            **{"family": "gpt2", "n_embd": 16, "n_head": 2, "n_layer": 3, "n_dims": 3},
            **{"n_positions": 8},
        },
        "training": {
            **{"task": "relu_2nn_regression", "task_kwargs": {"hidden_layer_size": 4}},
            **{"data": "gaussian", "num_tasks": None, "num_training_examples": None},
            **{"batch_size": 32, "learning_rate": 0.0001, "train_steps": 500_001},
            "curriculum": {
                "dims": {"start": 3, "end": 3, "inc": 1, "interval": 2000},
                "points": {"start": 8, "end": 8, "inc": 2, "interval": 2000},
            },
        },
    }
    return _changed(config, changes)


def leiay_run(folder: Path, family: str = "gpt2_loop", **changes: Any) -> Path:
    """A `state.pt` and its config.yaml."""
    weights = leiay_weights(3 if family == "gpt2" else 1)
    _write_config(folder, leiay_config(family, **changes))
    return save_state(folder / "state.pt", weights)


def openml_run(folder: Path, family: str = "gpt2_loop", **changes: Any) -> Path:
    """A classifier's, of tables: what its options inherit of a regression is there too."""
    config = leiay_config(family, model__pred_type="classification", model__n_positions=POSITIONS)
    config["training"] |= {"task_name": "linear_regression", "sparsity": 100, "test_idx": 3}
    _write_config(folder, _changed(config, changes))
    return save_state(folder / "state.pt", openml_weights(family))


def openml_weights(family: str = "gpt2_loop") -> dict[str, Tensor]:
    """What `openml_run` saves."""
    return leiay_weights(3 if family == "gpt2" else 1, n_positions=POSITIONS, outputs=2)


def garg_run(folder: Path, **changes: Any) -> Path:
    """A `model_7000.pt`, a bare state dict, and its config.yaml."""
    _write_config(folder, garg_config(**changes))
    path = folder / f"model_{STEP}.pt"
    torch.save(garg_weights(3), path)
    return path


def save_state(path: Path, weights: Mapping[str, Tensor], step: Any = STEP) -> Path:
    """What both codes save as they go: weights, Adam's state and the step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    parameters = [torch.nn.Parameter(torch.ones(2))]
    adam = torch.optim.Adam(parameters)
    parameters[0].sum().backward()
    adam.step()
    state = {"model_state_dict": dict(weights), "optimizer_state_dict": adam.state_dict()}
    torch.save(state | {"train_step": step}, path)
    return path


def _write_config(folder: Path, config: Mapping[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = yaml.dump(config, default_flow_style=False)
    (folder / "config.yaml").write_text(text, encoding="utf-8")


def _changed(config: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    for name, value in changes.items():
        *groups, last = name.split("__")
        place = config
        for group in groups:
            place = place[group]
        place[last] = value
    return config
