"""Experiments, comparisons, scaling laws and figures of stability as parts of the page, from their
JSON files."""

from __future__ import annotations

import csv
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from looplab.conf.command import as_word
from looplab.conf.mistakes import RunError
from looplab.conf.words import run_py
from looplab.evaluation.panel import Curve, Panel
from looplab.training.run_folder.files import Record, read_json, read_record

from .figure import Figure, figure, short
from .folders import anchor, run_of
from .kept import Kept

UNREADABLE = (KeyError, TypeError, ValueError, IndexError, AttributeError, RunError, OSError)
_SCALES = {"small": 0, "medium": 1, "paper": 2}
# In the CSV files of stability's figures, which are shown without their JSON's form.
_PARTS = ("standard_error", "mean", "low", "high")
_LOG_ABOVE = 30  # times the least value: a larger range is shown on a log axis
Values = list[float | None]


def experiment_part(path: Path, kept: Kept) -> dict[str, Any]:
    """A named experiment: its members, figures, verdicts and what is missing."""
    result = _content(read_record(path, "experiment"), path)
    members = [
        {
            **{key: member[key] for key in ("label", "seed", "step", "steps", "state", "remarks")},
            "run": str(member["run"]),
            "command": run_py(*member["words"]),
        }
        for member in result["members"]
    ]
    verdicts = [_verdict(verdict) for verdict in result["verdicts"]]
    command = result["command"]
    name = f"{result['experiment']}-{result['scale']}"
    figures = kept.part(
        [path], "experiment",
        lambda: [figure(Panel.read(panel), command, of=name) for panel in result["panels"]],
    )  # fmt: skip
    return {
        "id": anchor("experiment", path),
        **{key: result[key] for key in ("experiment", "title", "source", "scale", "missing")},
        "command": command,
        "members": members,
        "verdicts": verdicts,
        "figures": figures,
        "order": (str(result["experiment"]), _SCALES.get(result["scale"], 3)),
    }


def comparison_part(path: Path, kept: Kept) -> dict[str, Any]:
    """A comparison of runs on the same prompts."""
    result = _content(read_record(path, "comparison"), path)
    folder = path.parent.parent
    runs = [(run_of(folder, name) or folder / name).as_posix() for name in result["runs"]]
    command = run_py("action=compare", f"runs=[{','.join(runs)}]")

    def made() -> list[Figure]:
        from looplab.evaluation.comparison import run_labels  # these load torch
        from looplab.evaluation.figures import comparison_panels

        panels = comparison_panels(result, run_labels(result))  # type: ignore[arg-type]
        return [figure(panel, command, of=path.parent.name) for panel in panels]

    return {
        "id": anchor("comparison", path),
        "title": f"{str(result['task']).replace('_', ' ')}, d = {result['dims']}, "
        f"{result['prompts']} prompts",
        "path": path.parent.as_posix(),
        "remarks": list(result.get("remarks", [])),
        "command": command,
        "figures": kept.part([path], ["comparison", runs], made),
    }


def law_part(folder: Path, kept: Kept) -> dict[str, Any]:
    """The folder of a fitted scaling law, with the text of the iso-depth experiment where it is
    one; without a figure where its losses determine no law."""
    path, iso_path = folder / "scaling_law.json", folder / "iso_depth.json"
    law, iso = read_json(path), read_json(iso_path)
    for content, file in ((law, path), (iso, iso_path)):
        if not isinstance(content, dict) and file.exists():
            raise ValueError(f"{file.name} cannot be read")
    iso, text = iso or {}, ""
    if iso:
        command = _words("experiments.iso_depth", iso["settings"])
        text = iso["verdict"] or (
            f"no law can be fitted: {iso['fitted']} runs left the plateau, "
            f"{len(iso['on_plateau'])} did not"
        )
    else:
        name = folder.name.removeprefix("scaling_law-").rpartition("-")[0]
        table = name if name == "minima" else f"{folder.name}.csv"
        clusters = law["clusters"]["columns"]
        more = {"clusters": clusters} if clusters else {}
        bootstrap = {key: law[key] for key in ("resamples", "seed")}
        command = _words(
            "experiments.scaling_law", {"table": table, **law["held"], **more, **bootstrap}
        )

    def made() -> list[Figure]:
        from .law_figure import law_figure  # loads SciPy

        return [law_figure(law, command, folder.name)] if law else []

    return {
        "id": anchor("law", folder),
        "title": folder.name,
        "text": text,
        "remarks": list(iso.get("remarks", [])),
        "command": command,
        "figures": kept.part([path, iso_path], "law", made),
    }


def stability_part(path: Path, kept: Kept) -> dict[str, Any]:
    """A figure of `python -m experiments.stability`, from the CSV files beside its JSON."""
    result = _content(read_record(path, "stability"), path)
    settings = {"figure": result["figure"], **result.get("settings", {})}
    command = _words("experiments.stability", settings)
    title, files = str(result["figure"]), sorted(path.parent.glob(f"{path.stem}*.csv"))
    figures = kept.part(
        [path, *files], "stability",
        lambda: [figure(panel, command) for file in files for panel in panels_of(file, title)],
    )  # fmt: skip
    return {
        "id": anchor("stability", path), "title": title, "path": path.as_posix(),
        "command": command, "figures": figures,
    }  # fmt: skip


def _verdict(verdict: dict[str, Any]) -> dict[str, Any]:
    """A row of the table of claims, as text."""
    mean, low, high = (short(verdict[part]) for part in ("mean", "low", "high"))
    steps, of = verdict["steps"], verdict["published_steps"]
    return {
        **{key: verdict[key] for key in ("claim", "sentence", "source", "quantity", "published")},
        **{key: verdict[key] for key in ("seeds", "scale", "verdict", "note", "command")},
        "ours": mean if mean == "–" else f"{mean} ({low} to {high})",
        "line": f"{verdict['holds_if']} {verdict['line']:g}",
        "steps": f"{steps:,}" + (f" of {of:,}" if of is not None else ""),
    }


def _content(record: Record, path: Path) -> dict[str, Any]:
    """The content of a record; ValueError where there is none."""
    if record.content is None:
        raise ValueError(record.problem.removeprefix(f"{path} ") or "it is gone")
    return record.content


def _words(module: str, settings: dict[str, Any]) -> str:
    """The command of a module with these settings."""
    words = [
        f"{key}={as_word(value)}" for key, value in settings.items() if value not in ([], None)
    ]
    return shlex.join(["python", "-m", module, *words])


def panels_of(path: Path, title: str) -> list[Panel]:
    """A panel for each group of columns `<group>_<curve>_<part>`, or one for all of them where the
    first words make no groups. Raises ValueError for a CSV without a column of numbers to draw
    against, OSError for one that cannot be read."""
    with open(path, encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    columns = {
        name: [_number(cell) for cell in cells] for name, *cells in zip(head, *rows, strict=True)
    }
    x = columns[head[0]]
    if not x or any(value is None for value in x):
        raise ValueError(f"{path.name} has no axis of numbers")
    curves: dict[str, dict[str, Values]] = {}
    for name in head[1:]:
        part = next((part for part in _PARTS if name.endswith(f"_{part}")), "")
        curve = name.removesuffix(f"_{part}") if part else name
        curves.setdefault(curve, {})[part or "mean"] = columns[name]
    xs = [value for value in x if value is not None]
    panels = []
    for group, members in _groups(curves).items():
        text = f"{title}: {group}" if group else title
        panels.append(_panel(path.stem, text, group or "value", head[0], xs, members))
    return panels


def _groups(curves: dict[str, dict[str, Values]]) -> dict[str, dict[str, dict[str, Values]]]:
    """The curves by the first word of their names, where each such word has several."""
    groups: dict[str, dict[str, dict[str, Values]]] = {}
    for name, parts in curves.items():
        group, _, rest = name.partition("_")
        groups.setdefault(group, {})[rest or name] = parts
    if len(groups) > 1 and all(len(group) > 1 for group in groups.values()):
        return groups
    return {"": curves}


def _panel(
    name: str, title: str, y_label: str, x_label: str, x: Sequence[float],
    curves: dict[str, dict[str, Values]],
) -> Panel:  # fmt: skip
    drawn = [_curve(curve, parts) for curve, parts in curves.items()]
    values = [value for curve in drawn for value in curve["mean"] if value is not None]
    return {
        "name": f"{name}-{y_label}",
        "title": title,
        "x_label": x_label.replace("_", " "),
        "y_label": y_label.replace("_", " "),
        "x": list(x),
        "log_x": _wide(x),
        "log_y": _wide(values),
        "curves": drawn,
        "levels": {},
    }


def _curve(name: str, parts: dict[str, Values]) -> Curve:
    mean, low, high = parts.get("mean", []), parts.get("low", []), parts.get("high", [])
    if "standard_error" in parts:
        pairs = list(zip(mean, parts["standard_error"], strict=True))
        low, high = (
            [None if m is None or e is None else m + sign * e for m, e in pairs] for sign in (-1, 1)
        )
    label = name.replace("_", " ")
    return {
        "name": name, "label": label, "kind": label.rpartition(" ")[2],
        "mean": mean, "low": low, "high": high,
    }  # fmt: skip


def _wide(values: Sequence[float]) -> bool:
    return len(values) > 2 and min(values) > 0 and max(values) / min(values) > _LOG_ABOVE


def _number(cell: str) -> float | None:
    try:
        return float(cell) if cell else None
    except ValueError:
        return None
