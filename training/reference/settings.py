"""What a reference code's config.yaml says, in our settings.

settings = reference_settings(Path("results2/…/config.yaml"), "Leiay/looped_transformer")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from reloop.conf.build import flatten
from reloop.conf.mistakes import one_line
from reloop.tasks.tables import TEN

from ..run_folder.run import RunError

_FAMILIES = {
    "Leiay/looped_transformer": {"gpt2": "standard", "gpt2_loop": "looped", "gpt2_tying": "tied"},
    "dtsip/in-context-learning": {"gpt2": "standard"},
}
_TASKS = {
    "linear_regression": "linear",
    "noisy_linear_regression": "noisy_linear",
    "sparse_linear_regression": "sparse_linear",
    "relu_2nn_regression": "relu_network",
    "decision_tree": "decision_tree",
    "linear_classification": "halfspaces",
}
_INJECTIONS = {"z=f(x+z)": "add", "z=f(x*z)": "multiply"}
_RENAMED = {
    "model.n_dims": "task.dims",
    "model.n_embd": "model.n_embd",
    "model.n_head": "model.n_head",
    "model.n_positions": "model.n_positions",
    "training.curriculum.points.end": "task.points",
    "training.seed": "seed",
    "training.batch_size": "training.batch_size",
    "training.learning_rate": "training.learning_rate",
    "training.weight_decay": "training.weight_decay",
}
# Options that change what is computed or which prompts there are, and what they may be.
_ONLY = {
    "model.pred_type": ("regression", "classification"),
    "training.add_inputs_embeds": (False,),
    "training.use_fixed_dataset": (False,),
    "training.num_tasks": (),
    "training.num_training_examples": (),
    "training.data": ("gaussian",),
    "training.task_kwargs.scale": (1,),
}
# A task's settings in Leiay's code, where but one of them is an option.
_FIXED: dict[str, dict[str, Any]] = {
    "noisy_linear": {"noise_std": 0.1, "renormalize": False},
    "relu_network": {"hidden": 100},
    "decision_tree": {"depth": 4},
}
_POINTS_OF_TABLES = 41  # pairs in a prompt of tables, a constant of Leiay's code
# What the settings of a task are in both codes, and no option.
_ALWAYS: dict[str, dict[str, Any]] = {
    "tables": {"data_dir": "openml_data", "tables": TEN, "protocol": "reference"},
}
# A task's settings among Garg's task_kwargs: their name, ours, their default.
_KWARGS: dict[str, dict[str, tuple[str, Any]]] = {
    "sparse_linear": {"sparsity": ("sparsity", 3)},
    "noisy_linear": {"noise_std": ("noise_std", 0.0), "renormalize_ys": ("renormalize", False)},
    "relu_network": {"hidden_layer_size": ("hidden", 100)},
    "decision_tree": {"depth": ("depth", 4)},
}
_PLAIN_HALFSPACES = {"vary_features": False, "shared_factor": 0.0, "threshold": 0.0, "flips": 0.0}


_Refusal = Callable[[str], RunError]


def reference_settings(path: Path, code: str) -> dict[str, Any]:
    """Our settings by key (`task` and `model` by name), as far as the file at `path` says them;
    none where there is no file.

    Raises RunError, naming the option, for one that has no counterpart here.
    """
    theirs = _read(path)
    if theirs is None:
        return {}

    def refuse(option: str) -> RunError:
        return RunError(f"{path}: {option} is {theirs[option]!r}, which has no counterpart here")

    for option, allowed in _ONLY.items():
        if theirs.get(option) is not None and theirs[option] not in allowed:
            raise refuse(option)
    ours = {new: theirs[old] for old, new in _RENAMED.items() if theirs.get(old) is not None}
    if family := _translated(theirs, "model.family", _FAMILIES[code], refuse):
        ours["model"] = family
        ours |= _loop_settings(theirs, family, refuse)
    if family == "looped":
        ours |= _growth(theirs, "loops")
    if theirs.get("model.pred_type") == "classification":
        return ours | _tables(theirs, refuse)
    end, n_dims = "training.curriculum.dims.end", theirs.get("model.n_dims")
    if n_dims is not None and theirs.get(end, n_dims) != n_dims:
        raise refuse(end)
    for name in ("dims", "points"):
        ours |= _growth(theirs, name)
    option = "training.task_name" if "training.task_name" in theirs else "training.task"
    if task := _translated(theirs, option, _TASKS, refuse):
        ours["task"] = task
        settings = _leiay_task if code.startswith("Leiay") else _garg_task
        ours |= {f"task.{key}": value for key, value in settings(theirs, task, refuse).items()}
    return ours


def always(task: str) -> dict[str, Any]:
    """Settings of a task, by key, that nobody has to say: the codes know no others."""
    return {f"task.{key}": value for key, value in _ALWAYS.get(task, {}).items()}


def _read(path: Path) -> dict[str, Any] | None:
    """The file's options by dotted name; None where there is none."""
    try:
        theirs = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise RunError(f"{path} cannot be read: {one_line(error)}") from None
    groups = [theirs.get(key) for key in ("model", "training")] if isinstance(theirs, dict) else []
    if not groups or not all(isinstance(group, dict) for group in groups):
        raise RunError(f"{path} is none of the reference codes' own: it lacks model or training")
    return flatten(theirs)


def _translated(
    theirs: Mapping[str, Any], option: str, known: Mapping[str, str], refuse: _Refusal
) -> str | None:
    """Our name for an option's value; None where the option is not there."""
    if theirs.get(option) is None:
        return None
    name = str(theirs[option])
    if name not in known:
        raise refuse(option)
    return known[name]


def _loop_settings(theirs: Mapping[str, Any], family: str, refuse: _Refusal) -> dict[str, Any]:
    """Layers and loops: a tied model's n_layer is how often its one layer is repeated."""
    n_layer = theirs.get("model.n_layer")
    if family == "tied":
        found = {"loops.b": n_layer}
    elif family == "looped":
        found = {
            "model.n_layer": n_layer,
            "model.injection": _translated(theirs, "model.loop_func", _INJECTIONS, refuse),
            "loops.b": theirs.get("training.curriculum.loops.end"),
            "loops.T": theirs.get("training.n_loop_window"),
        }
    else:
        found = {"model.n_layer": n_layer}
    return {key: value for key, value in found.items() if value is not None}


def _growth(theirs: Mapping[str, Any], name: str) -> dict[str, Any]:
    """One curriculum, where all of it is said; its end stands with the task or the loops."""
    values = [
        theirs.get(f"training.curriculum.{name}.{part}") for part in ("start", "inc", "interval")
    ]
    if None in values:
        return {}
    start, inc, interval = values
    prefix = f"curriculum.{name}"
    return {f"{prefix}.start": start, f"{prefix}.inc": inc, f"{prefix}.intervals": [interval]}


def _tables(theirs: Mapping[str, Any], refuse: _Refusal) -> dict[str, Any]:
    """A classifier is one of tables, whatever task, dims and points its options inherited: its code
    looks at none of them. Which of the ten published tables is left out it says by number."""
    ours = {"task": "tables", "task.points": _POINTS_OF_TABLES}
    number = theirs.get("training.test_idx")
    if number is None:
        return ours
    if type(number) is not int or not 0 <= number < len(TEN):
        raise refuse("training.test_idx")
    return ours | {"task.held_out": TEN[number]}


def _leiay_task(theirs: Mapping[str, Any], task: str, refuse: _Refusal) -> dict[str, Any]:
    sparsity = theirs.get("training.sparsity")
    if task == "sparse_linear":
        return {} if sparsity is None else {"sparsity": sparsity}
    if task == "relu_network" and isinstance(sparsity, int) and sparsity < 100:
        raise refuse("training.sparsity")  # so many of the hidden units have a part in y
    return _FIXED.get(task, {})


def _garg_task(theirs: Mapping[str, Any], task: str, refuse: _Refusal) -> dict[str, Any]:
    known, prefix = _KWARGS.get(task, {}), "training.task_kwargs."
    for option in theirs:
        if option.startswith(prefix) and option.removeprefix(prefix) not in {*known, "scale"}:
            raise refuse(option)
    if task == "halfspaces":
        return dict(_PLAIN_HALFSPACES)
    return {ours: theirs.get(prefix + name, default) for name, (ours, default) in known.items()}
