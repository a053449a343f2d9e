"""Settings in words, as legends, tables and sentences say them. No torch here.

in_words("loops.b", 20)                     # 'b = 20'
in_words("model.injection", "multiply")     # 'multiplied injection'
in_words("training.recompute", "true")      # 'with recompute'
task_in_words("linear", 20)                 # 'Linear functions of 20 inputs'
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

_ALONE = "{value}"
# By the last part of a key of one or two; the plural of a unit ends in s.
_FORMS = {
    "name": _ALONE,
    "family": _ALONE,
    "task": _ALONE,
    "model": _ALONE,
    "optimizer": _ALONE,
    "connectivity": _ALONE,
    "precision": _ALONE,
    "device": _ALONE,
    "backend": _ALONE,
    "recipe": "recipe {value}",
    "scale": "scale {value}",
    "seed": "seed {value}",
    "norm": "norm {value}",
    "n_embd": "{value} wide",
    "n_head": "{value} heads",
    "n_layer": "{value} layers",
    "n_hidden": "MLP {value} wide",
    "n_positions": "{value} positions",
    "n_kv": "{value} heads of keys and values",
    "lanes": "{value} lanes",
    "dims": "d = {value}",
    "learning_rate": "rate {value}",
    "muon_rate": "Muon's rate {value}",
    "steps": "{value} steps",
    "grad_loops": "gradients through {value}",
    "batch_size": "batches of {value}",
}
_VALUES = {"add": "added", "multiply": "multiplied", "concat": "concatenated", "pairs": "paired"}
_MOST = 4  # words that tell runs apart, before those are left out that tell no more of them apart
FUNCTIONS = {  # of a task, for titles
    "linear": "Linear functions",
    "noisy_linear": "Noisy linear functions",
    "conditioned_linear": "Ill-conditioned linear functions",
    "sparse_linear": "Sparse functions",
    "relu_network": "ReLU networks",
    "decision_tree": "Decision trees",
    "halfspaces": "Halfspaces",
    "tables_prior": "Random tables",
    "tables_prior_regression": "Random regression tables",
}
# The starts of keys of settings that move no number of a run, or its seed's alone.
NOT_OF_NUMBERS = (
    "schema_version",
    "seed",
    "device",
    "backend",
    "folder",
    "plugins",
    "name",
    "scale",
    "recipe",
    "wandb",
    "tensorboard",
    "evaluation.",
    "figures.",
    "tables.",
    "task.settings.data_dir",
    "task.settings.eval",
    "training.checkpoint_every",
    "training.snapshots",
    "training.log_every",
    "training.log_norms",
    # The same numbers with less memory.
    "training.recompute",
    "training.zero_stage",
)
_NOTHING = ("none", "null", "None", "")


def in_words(key: str, value: Any) -> str:
    """A setting's value in words that say what it is a value of. `key` is that of the command line,
    `value` what was typed or what the configuration has."""
    parts = key.split(".")
    name = " ".join(parts[-2:] if len(parts) > 2 else parts[-1:]).replace("_", " ")
    if str(value).lower() in ("true", "false"):
        return f"{'with' if str(value).lower() == 'true' else 'without'} {name}"
    if value is None or str(value) in _NOTHING:
        return f"without {name}"
    form = _FORMS.get(parts[-1], "") if len(parts) < 3 else ""
    number: float | None = None
    with suppress(TypeError, ValueError):
        number = float(value)
    if number is not None:
        text = f"{number:,.0f}" if number.is_integer() else f"{number:g}"
        if text == "1":
            # "1 layers" becomes "1 layer".
            form = form.removesuffix("s")
        return (form or f"{name} = {{value}}").format(value=text)
    if isinstance(value, list | tuple):
        return f"{name} = {', '.join(map(str, value)) or 'none'}"
    text = str(value).rpartition("/")[2]  # of a path its last part
    text = _VALUES.get(text, text).replace("_", " ")
    return (form or f"{{value}} {name}").format(value=text)


def task_in_words(name: str, dims: int, sparsity: float = 0) -> str:
    """What a task's functions are, as the title of a picture. `sparsity` is the number of inputs of
    sparse functions that count; 0: it differs."""
    if name not in FUNCTIONS:  # of a user's own, or of a text or tables
        words = name.replace("_", " ").capitalize()
        return f"{words}, d = {dims}" if dims else words
    title = f"{FUNCTIONS[name]} of {dims} input{'s' * (dims > 1)}"
    if name == "sparse_linear" and sparsity:
        title += f", {sparsity:g} of which count{'s' * (sparsity == 1)}"
    return title


def name_in_words(key: str) -> str:
    """The name of a setting, for an axis: 'learning rate'."""
    return key.rpartition(".")[2].replace("_", " ")


def _typed(key: str) -> str:
    """A key as it is typed: a task's own settings stand a section deeper in files."""
    return key.replace("task.settings.", "task.")


def settings_key(settings: Mapping[str, Any], varied: Sequence[str] = ()) -> str:
    """Return what runs that differ in their seed alone share, of a run's settings by dotted key.

    Settings that move no number count only if they are among the `varied`, the starts of their
    keys."""
    counted = []
    for key, value in settings.items():
        if not key.startswith(NOT_OF_NUMBERS) or key.startswith(tuple(varied)):
            counted.append((key, value))
    return repr(sorted(counted))


def labels_of_settings(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a label for each run's settings by dotted key that says in what they differ from the
    others: the family where these differ, then settings, but those that move no number, and
    schedules, which follow from others; of many those alone, in their order, that tell more of them
    apart."""
    by_family = defaultdict(list)
    for run in settings:
        by_family[run["model.family"]].append(run)
    keys = {family: _telling_keys(runs) for family, runs in by_family.items()}
    prefixed = len(by_family) > 1 or not any(keys.values())
    labels = []
    for run in settings:
        family = run["model.family"]
        words = [family] if prefixed else []
        for key in keys[family]:
            if key in run:
                words.append(in_words(_typed(key), run[key]))
        labels.append(", ".join(words))
    return labels


def _telling_keys(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The keys of settings that tell the runs of one family apart."""
    values: defaultdict[str, list[Any]] = defaultdict(list)
    for run in runs:
        for key, value in run.items():
            values[key].append(value)
    keys = []
    for key, of_runs in values.items():
        is_group = any(isinstance(value, list | dict) for value in of_runs)
        differs = len(set(map(repr, of_runs))) > 1
        if differs and not is_group and not key.startswith(NOT_OF_NUMBERS):
            keys.append(key)
    # Schedules follow from steps and loops, unless nothing else tells the runs apart.
    keys = [key for key in keys if not key.startswith("curriculum.")] or keys
    if len(keys) <= _MOST:
        return keys
    chosen: list[str] = []
    told_apart = [""] * len(runs)  # the chosen values of each run
    for key in keys:
        # A key is chosen if it divides the runs, by the keys so far, into more groups.
        finer = [f"{text} {run.get(key)!r}" for text, run in zip(told_apart, runs, strict=True)]
        if len(set(finer)) > len(set(told_apart)):
            chosen.append(key)
            told_apart = finer
    return chosen
