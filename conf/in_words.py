"""Settings in words, as legends, tables and sentences say them. No torch here.

in_words("loops.b", 20)                     # 'b = 20'
in_words("model.injection", "multiply")     # 'multiplied injection'
in_words("training.recompute", "true")      # 'with recompute'
task_in_words("linear", 20)                 # 'Linear functions of 20 inputs'
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

_ALONE = "{value}"
# By the last part of a key of one or two; the plural of a unit ends in s.
_FORMS = {
    "name": _ALONE, "family": _ALONE, "task": _ALONE, "model": _ALONE, "optimizer": _ALONE,
    "connectivity": _ALONE, "precision": _ALONE, "device": _ALONE, "backend": _ALONE,
    "recipe": "recipe {value}", "scale": "scale {value}", "seed": "seed {value}",
    "norm": "norm {value}", "n_embd": "{value} wide", "n_head": "{value} heads",
    "n_layer": "{value} layers", "n_hidden": "MLP {value} wide", "n_positions": "{value} positions",
    "n_kv": "{value} heads of keys and values", "lanes": "{value} lanes", "dims": "d = {value}",
    "learning_rate": "rate {value}", "muon_rate": "Muon's rate {value}", "steps": "{value} steps",
    "grad_loops": "gradients through {value}", "batch_size": "batches of {value}",
}  # fmt: skip
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
    *("seed", "device", "backend", "folder", "plugins", "name", "scale", "recipe", "wandb"),
    "tensorboard",
    *("evaluation.", "figures.", "tables."),
    *("task.settings.data_dir", "task.settings.eval"),
    *("training.checkpoint_every", "training.snapshots"),
    *("training.log_every", "training.log_norms"),
    *("training.recompute", "training.zero_stage"),  # the same numbers with less memory
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
        said = (form or f"{name} = {{value}}").format(value=text)
        return said.removesuffix("s") if text == "1" and form.endswith("s") else said
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
    counted = [
        (key, value)
        for key, value in settings.items()
        if not key.startswith(NOT_OF_NUMBERS) or key.startswith(tuple(varied))
    ]
    return repr(sorted(counted))


def labels_of_settings(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a label for each run's settings by dotted key that says in what they differ from the
    others: the family where these differ, then settings, but those that move no number, and
    schedules, which follow from others; of many those alone, in their order, that tell more of them
    apart."""
    labels, families = [""] * len(settings), [each["model.family"] for each in settings]
    for family in dict.fromkeys(families):
        places = [place for place, each in enumerate(families) if each == family]
        flats = [settings[place] for place in places]
        keys = [
            key
            for key in dict.fromkeys(key for each in flats for key in each)
            if len({repr(each[key]) for each in flats if key in each}) > 1
            and not key.startswith(NOT_OF_NUMBERS)
            and not any(isinstance(each.get(key), list | dict) for each in flats)
        ]
        keys = [key for key in keys if not key.startswith("curriculum.")] or keys
        if len(keys) > _MOST:
            chosen = list[str]()
            for key in keys:
                before, after = (
                    len({tuple(repr(each.get(k)) for k in part) for each in flats})
                    for part in (chosen, [*chosen, key])
                )
                chosen += [key] * (after > before)
            keys = chosen
        for place, flat in zip(places, flats, strict=True):
            labels[place] = ", ".join(
                in_words(_typed(key), flat[key]) for key in keys if key in flat
            )
    prefixed = len({*families}) > 1 or not any(labels)
    return [
        ", ".join(filter(None, (family * prefixed, label)))
        for family, label in zip(families, labels, strict=True)
    ]
