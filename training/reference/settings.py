"""The options of a reference code's config.yaml as our settings.

settings = reference_settings(Path("results2/…/config.yaml"), "Leiay/looped_transformer")
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from looplab.conf.build import flatten
from looplab.conf.files import Loader
from looplab.conf.mistakes import RunError, one_line
from looplab.tasks.table_rows import TEN

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
# Options that change the computation or the prompts, with their allowed values.
_ONLY = {
    "model.pred_type": ("regression", "classification"),
    "training.add_inputs_embeds": (False,),
    "training.use_fixed_dataset": (False,),
    "training.num_tasks": (),
    "training.num_training_examples": (),
    "training.data": ("gaussian",),
    "training.task_kwargs.scale": (1,),
}
# A task's settings in Leiay's code, where they are constants.
_LEIAY_SETTINGS: dict[str, dict[str, Any]] = {
    "noisy_linear": {"noise_std": 0.1, "renormalize": False},
    "relu_network": {"hidden": 100},
    "decision_tree": {"depth": 4},
}
_POINTS_OF_TABLES = 41  # pairs in a prompt of tables, a constant of Leiay's code
# A task's settings in both codes, where they are constants.
_FIXED_SETTINGS: dict[str, dict[str, Any]] = {
    "tables": {"data_dir": "openml_data", "tables": TEN, "protocol": "reference"},
    "language": {  # rows packed as looped-lm-scaling packs them
        "column": "text",
        "held_out": 0.1,
        "held_out_text": "",
        "eval": "",
        "packing": "best_fit",
    },
}
# A task's settings among Garg's task_kwargs: the option, our name, the default.
_KWARGS: dict[str, dict[str, tuple[str, Any]]] = {
    "sparse_linear": {"sparsity": ("sparsity", 3)},
    "noisy_linear": {"noise_std": ("noise_std", 0.0), "renormalize_ys": ("renormalize", False)},
    "relu_network": {"hidden_layer_size": ("hidden", 100)},
    "decision_tree": {"depth": ("depth", 4)},
}
_PLAIN_HALFSPACES = {"vary_features": False, "shared_factor": 0.0, "threshold": 0.0, "flips": 0.0}


class _Refused(Exception):
    """An option that has no counterpart here."""


def reference_settings(path: Path, code: str) -> dict[str, Any]:
    """Our settings by key (`task` and `model` by name), as far as the file at `path` has them;
    empty where there is no file.

    Raises RunError, naming the option, for one that has no counterpart here.
    """
    options = _read(path)
    try:
        return _translated(options, code)
    except _Refused as refused:
        (option,) = refused.args
        problem = f"{option} is {options[option]!r}, which has no counterpart here"
        raise RunError(f"{path}: {problem}") from None


def _translated(options: Mapping[str, Any], code: str) -> dict[str, Any]:
    """Our settings from all options; _Refused for one that has no counterpart here."""
    for option, allowed in _ONLY.items():
        if options.get(option) is not None and options[option] not in allowed:
            raise _Refused(option)
    settings = {new: options[old] for old, new in _RENAMED.items() if options.get(old) is not None}
    if family := _translate(options, "model.family", _FAMILIES[code]):
        settings["model"] = family
        settings |= _loop_settings(options, family)
    if family == "looped":
        settings |= _growth(options, "loops")
    # Before what follows: that code's classifier reads none of those options.
    if options.get("model.pred_type") == "classification":
        return settings | _tables(options)
    end = "training.curriculum.dims.end"
    n_dims = options.get("model.n_dims")
    # Here dims grow to the task's own; a curriculum that ends elsewhere would need a setting more.
    if n_dims is not None and options.get(end, n_dims) != n_dims:
        raise _Refused(end)
    for name in ("dims", "points"):
        settings |= _growth(options, name)
    option = "training.task_name" if "training.task_name" in options else "training.task"
    if task := _translate(options, option, _TASKS):
        settings["task"] = task
        read_task = _leiay_task if code.startswith("Leiay") else _garg_task
        settings |= {f"task.{key}": value for key, value in read_task(options, task).items()}
    return settings


def fixed_settings(task: str) -> dict[str, Any]:
    """A task's settings by key that are constants of the codes, and need not be given."""
    return {f"task.{key}": value for key, value in _FIXED_SETTINGS.get(task, {}).items()}


def _read(path: Path) -> dict[str, Any]:
    """The file's options by dotted name; empty where there is none."""
    try:
        options = yaml.load(path.read_text(encoding="utf-8"), Loader)
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, LookupError, yaml.YAMLError) as error:
        raise RunError(f"{path} cannot be read: {one_line(error)}") from None
    is_theirs = isinstance(options, dict) and all(
        isinstance(options.get(group), dict) for group in ("model", "training")
    )
    if not is_theirs:
        raise RunError(f"{path} is none of the reference codes' own: it lacks model or training")
    return flatten(options)


def _translate(options: Mapping[str, Any], option: str, names: Mapping[str, str]) -> str | None:
    """Our name for an option's value; None where the option is absent."""
    if options.get(option) is None:
        return None
    name = str(options[option])
    if name not in names:
        raise _Refused(option)
    return names[name]


def _loop_settings(options: Mapping[str, Any], family: str) -> dict[str, Any]:
    """Layers and loops: a tied model's n_layer is the number of its loops."""
    layers = "loops.b" if family == "tied" else "model.n_layer"
    settings = {layers: options.get("model.n_layer")}
    if family == "looped":
        settings |= {
            "model.injection": _translate(options, "model.loop_func", _INJECTIONS),
            "loops.b": options.get("training.curriculum.loops.end"),
            "loops.T": options.get("training.n_loop_window"),
        }
    return {key: value for key, value in settings.items() if value is not None}


def _growth(options: Mapping[str, Any], name: str) -> dict[str, Any]:
    """One curriculum, if complete; its end is a setting of the task or the loops."""
    theirs = f"training.curriculum.{name}"
    start = options.get(f"{theirs}.start")
    inc = options.get(f"{theirs}.inc")
    interval = options.get(f"{theirs}.interval")
    if None in (start, inc, interval):
        return {}
    growth = {f"curriculum.{name}.start": start}
    if start != options.get(f"{theirs}.end") or 0 not in (inc, interval):  # it grows
        growth |= {f"curriculum.{name}.inc": inc, f"curriculum.{name}.intervals": [interval]}
    return growth


def _tables(options: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a classifier, whose task is always tables: its code ignores the options of
    task, dims and points. The held-out one of the ten published tables is a number."""
    settings = {"task": "tables", "task.points": _POINTS_OF_TABLES}
    number = options.get("training.test_idx")
    if number in (None, -1):  # not given, for its code
        return settings
    if type(number) is not int or not 0 <= number < len(TEN):
        raise _Refused("training.test_idx")
    return settings | {"task.held_out": TEN[number]}


def _leiay_task(options: Mapping[str, Any], task: str) -> dict[str, Any]:
    """The settings of a task in Leiay's code."""
    sparsity = options.get("training.sparsity")
    if task == "sparse_linear":
        return {} if sparsity is None else {"sparsity": sparsity}
    if task == "relu_network" and isinstance(sparsity, int) and sparsity < 100:
        raise _Refused("training.sparsity")  # only so many hidden units contribute to y
    return _LEIAY_SETTINGS.get(task, {})


def _garg_task(options: Mapping[str, Any], task: str) -> dict[str, Any]:
    """The settings of a task in Garg's code."""
    names = _KWARGS.get(task, {})
    prefix = "training.task_kwargs."
    for option in options:
        name = option.removeprefix(prefix)
        if name != option and name != "scale" and name not in names:
            raise _Refused(option)
    if task == "halfspaces":
        return dict(_PLAIN_HALFSPACES)
    return {
        our_name: options.get(prefix + name, default) for name, (our_name, default) in names.items()
    }
