"""The reference codes' models as plain functions of their state dicts, with random weights; and the
folders that the codes leave, with small models in them.

weights = garg_weights(n_layer=3)
predictions = predict(weights, prompts, loops=1)
path = leiay_run(tmp_path, family="gpt2_loop")            # its state.pt, a config.yaml beside it
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor

from tests.models.small import DIMS, Batch

STEP = 7000
POSITIONS = 45  # of a classifier, whose prompts have 41 pairs
# What a looped checkpoint without a config.yaml needs.
SAID = {
    **{"task": "linear", "task.points": 8, "model": "looped", "model.n_head": 2},
    **{"model.injection": "add", "loops.b": 4, "loops.T": 2},
}
HEADS = 2
_WIDTH = 16
_LINEAR = {"attn.c_attn": (16, 48), "attn.c_proj": (16, 16), "mlp.c_fc": (16, 64)}
_LINEAR |= {"mlp.c_proj": (64, 16)}


def leiay_weights(
    n_layer: int = 1, n_positions: int = 8, seed: int = 0, outputs: int = 1
) -> dict[str, Tensor]:
    """As Leiay/looped_transformer stores them: nanoGPT's backbone, matrices [out, in]. A classifier
    has two outputs."""
    rows = 2 * n_positions + 1
    return _weights("_backbone.transformer.", n_layer, rows, seed, turned=True, outputs=outputs)


def garg_weights(n_layer: int = 3, n_positions: int = 8, seed: int = 0) -> dict[str, Tensor]:
    """As dtsip/in-context-learning stores them: Hugging Face's GPT2Model, whose Conv1D matrices
    are [in, out], with the unused table of words and an older version's masks."""
    weights = _weights("_backbone.", n_layer, 2 * n_positions, seed, turned=False)
    weights["_backbone.wte.weight"] = torch.full((5, _WIDTH), math.nan)
    for layer in range(n_layer):
        mask = torch.ones(2 * n_positions, 2 * n_positions, dtype=torch.uint8).tril()
        weights[f"_backbone.h.{layer}.attn.bias"] = mask[None, None]
        weights[f"_backbone.h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
    return weights


def predict(
    weights: Mapping[str, Tensor], prompts: Batch, loops: int, injection: str = "none"
) -> Tensor:
    """Predictions [B, n], or logits [B, n, 2], after so many passes through the whole backbone; a
    standard model's are those of one, a tied model's of several without injection."""
    tokens = torch.zeros(*prompts.xs.shape[:1], 2 * prompts.xs.shape[1], DIMS)
    tokens[:, 0::2], tokens[:, 1::2, 0] = prompts.xs, prompts.ys
    embeds = tokens @ weights["_read_in.weight"].T + weights["_read_in.bias"]
    z = {"none": embeds, "add": 0 * embeds, "multiply": embeds**0}[injection]
    for _ in range(loops):
        into = {"none": z, "add": z + embeds, "multiply": z * embeds}[injection]
        z = _backbone(weights, into)
    predictions = z @ weights["_read_out.weight"].T + weights["_read_out.bias"]
    return predictions[:, 0::2].squeeze(-1)


def _weights(
    prefix: str, n_layer: int, rows: int, seed: int, turned: bool, outputs: int = 1
) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int, around: float = 0.0) -> Tensor:
        return around + 0.3 * torch.randn(*shape, generator=generator)

    weights = {"_read_in.weight": draw(_WIDTH, DIMS), "_read_in.bias": draw(_WIDTH)}
    weights[f"{prefix}wpe.weight"] = draw(rows, _WIDTH)
    norms = [f"{prefix}ln_f"]
    for layer in range(n_layer):
        name = f"{prefix}h.{layer}."
        norms += [f"{name}ln_1", f"{name}ln_2"]
        for part, (rows_in, rows_out) in _LINEAR.items():
            matrix = draw(rows_in, rows_out)
            weights[f"{name}{part}.weight"] = matrix.T.contiguous() if turned else matrix
            weights[f"{name}{part}.bias"] = draw(rows_out)
    for norm in norms:
        weights |= {f"{norm}.weight": draw(_WIDTH, around=1.0), f"{norm}.bias": draw(_WIDTH)}
    return weights | {"_read_out.weight": draw(outputs, _WIDTH), "_read_out.bias": draw(outputs)}


def _backbone(weights: Mapping[str, Tensor], x: Tensor) -> Tensor:
    turned = any(name.startswith("_backbone.transformer.") for name in weights)
    prefix = "_backbone.transformer." if turned else "_backbone."

    def linear(x: Tensor, name: str) -> Tensor:
        matrix = weights[f"{name}.weight"]
        return x @ (matrix.T if turned else matrix) + weights[f"{name}.bias"]

    def norm(x: Tensor, name: str) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        deviation = (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
        return centred / deviation * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def attend(x: Tensor, name: str) -> Tensor:
        length, size = x.shape[1], _WIDTH // HEADS
        query, key, value = linear(x, f"{name}.c_attn").split(_WIDTH, dim=-1)
        mixed = []
        for first in range(0, _WIDTH, size):
            part = slice(first, first + size)
            scores = query[..., part] @ key[..., part].mT / math.sqrt(size)
            scores = scores.masked_fill(torch.ones(length, length).triu(1) > 0, -math.inf)
            mixed.append(scores.softmax(-1) @ value[..., part])
        return linear(torch.cat(mixed, dim=-1), f"{name}.c_proj")

    x = x + weights[f"{prefix}wpe.weight"][: x.shape[1]]
    layer = 0
    while f"{prefix}h.{layer}.ln_1.weight" in weights:
        name = f"{prefix}h.{layer}"
        x = x + attend(norm(x, f"{name}.ln_1"), f"{name}.attn")
        h = linear(norm(x, f"{name}.ln_2"), f"{name}.mlp.c_fc")
        h = 0.5 * h * (1 + torch.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3)))
        x, layer = x + linear(h, f"{name}.mlp.c_proj"), layer + 1
    return norm(x, f"{prefix}ln_f")


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
