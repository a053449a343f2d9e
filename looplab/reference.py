"""The settings of every command as text: python -m looplab.reference > docs/reference.md"""

from collections.abc import Mapping
from dataclasses import MISSING
from typing import Any, Literal, get_args, get_origin

from looplab.benchmarks.settings import KernelSettings, ParitySettings, StepSettings
from looplab.conf.command import as_word
from looplab.conf.files import choices, own_settings
from looplab.conf.schema import Config
from looplab.conf.setting import Item, all_settings
from looplab.evaluation.export.command import ExportSettings
from looplab.evaluation.text.command import CoreSettings, GenerateSettings
from looplab.experiments.scaling_law.settings import ScalingSettings
from looplab.experiments.settings import ExperimentSettings, GridSettings
from looplab.openml_eval.settings import FetchSettings, RunSettings
from looplab.probing.settings import DynamicsSettings, ProbingSettings
from looplab.show.listing import ListSettings
from looplab.show.settings import PlaySettings, ReportSettings

_COMMANDS: dict[str, type[Any]] = {
    "python run.py experiment=…": ExperimentSettings,
    "python -m probing": ProbingSettings,
    "python -m probing.dynamics": DynamicsSettings,
    "python -m openml_eval": RunSettings,
    "python -m openml_eval action=fetch": FetchSettings,
    "python run.py action=export": ExportSettings,
    "python -m experiments.scaling_law": ScalingSettings,
    "python run.py -m": GridSettings,
    "python run.py action=report": ReportSettings,
    "python run.py action=list": ListSettings,
    "python run.py action=play": PlaySettings,
    "python run.py action=generate": GenerateSettings,
    "python run.py action=core": CoreSettings,
    "python -m benchmarks.step": StepSettings,
    "python -m benchmarks.parity": ParitySettings,
    "python -m benchmarks.kernels": KernelSettings,
}
_HEAD = """\
# Reference

The settings of every command, each given as `key=value`. null means none; lists are `key=1,2`, in
brackets where they hold one item with a comma or none. Defaults of `python run.py` are those of the
schema, the published values; a scale and a recipe (conf/scale/, conf/recipe/) replace some of them.
This file is written by `python -m looplab.reference > docs/reference.md`.
"""


def reference() -> str:
    """The whole text."""
    parts = [_HEAD, "## python run.py\n", _groups()]
    parts += _config_tables()
    parts.append(_task_table())
    for command, cls in _COMMANDS.items():
        parts.append(f"## {command}\n\n{_table(all_settings(cls))}")
    return "\n".join(parts)


def _groups() -> str:
    lines = [f"- `{name}=` {', '.join(choices(name))}" for name in ("task", "model", "scale")]
    lines.append(f"- `recipe=` {', '.join(choices('recipe'))}")
    of_runs = "train, plan, tune, evaluate (`run=`), compare (`runs=`), import (`checkpoint=`)"
    lines.append(f"- `action=` {of_runs}; others have a section below")
    lines.append("- `again=true` trains again; the old run is kept under another name\n")
    return "\n".join(lines)


def _config_tables() -> list[str]:
    """A table for each group of settings, first those in no group."""
    groups: dict[str, dict[str, Item]] = {}
    for key, item in all_settings(Config).items():
        groups.setdefault(key.rpartition(".")[0], {})[key] = item
    return [
        (f"### {group}\n\n" if group else "") + _table(items) for group, items in groups.items()
    ]


def _task_table() -> str:
    lines = ["### Settings of single tasks", "", "| task | setting | default |", "|---|---|---|"]
    for task in choices("task"):
        for name, default in (own_settings(task) or {}).items():
            lines.append(f"| {task} | `task.{name}` | {_default_text(default)} |")
    return "\n".join(lines) + "\n"


def _table(items: Mapping[str, Item]) -> str:
    lines = ["| setting | default | values | meaning |", "|---|---|---|---|"]
    for key, item in items.items():
        text = "required" if item.default is MISSING else _default_text(item.default)
        values = _values(item.hint) + (f" {item.info.range}" if item.info.range else "")
        if type(None) in get_args(item.hint):
            values += " or null"
        lines.append(f"| `{key}` | {text} | {values} | {item.info.meaning} |")
    return "\n".join(lines) + "\n"


def _default_text(default: Any) -> str:
    if isinstance(default, list):
        default = tuple(default)
    return f"`{as_word(default)}`" if default not in ("", {}) else ""


def _values(hint: Any) -> str:
    """A type as text for a table: its names, or the kind of number."""
    if get_origin(hint) is Literal:
        return ", ".join(map(str, get_args(hint)))
    plain = {int: "whole number", float: "number", bool: "true, false", str: "text"}
    if hint in plain:
        return plain[hint]
    if get_origin(hint) is Mapping:
        return "settings"
    if get_origin(hint) is tuple:
        return f"list of {_values(get_args(hint)[0])}"
    return " or ".join(_values(part) for part in get_args(hint) if part is not type(None))


if __name__ == "__main__":
    print(reference(), end="")
