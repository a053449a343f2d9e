"""Experiments, comparisons and scaling laws as parts of the page, from their JSON files."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from looplab.conf.command import as_word
from looplab.conf.mistakes import RunError
from looplab.conf.words import run_py
from looplab.evaluation.panel import Panel
from looplab.training.run_folder.files import Record, read_record

from .figure import Figure, figure, short
from .folders import anchor, run_of
from .kept import Kept

UNREADABLE = (KeyError, TypeError, ValueError, IndexError, AttributeError, RunError, OSError)
_SCALES = {"small": 0, "medium": 1, "paper": 2}


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
    """The folder of a fitted scaling law."""
    path = folder / "scaling_law.json"
    result = _content(read_record(path, "scaling_law"), path)
    return {
        "id": anchor("law", folder),
        "title": folder.name,
        "text": result["verdict"],
        "remarks": [],
        **_drawn(path, result, "experiments.scaling_law", kept, folder.name),
    }


def _drawn(path: Path, result: dict[str, Any], module: str, kept: Kept, of: str) -> dict[str, Any]:
    """The command of a result with its settings, and the figures of its panels."""
    words = [
        f"{key}={as_word(value)}"
        for key, value in result["settings"].items()
        if value not in ([], None)
    ]
    command = shlex.join(["python", "-m", module, *words])
    panels = [Panel.read(panel) for panel in result["panels"]]
    figures = kept.part([path], module, lambda: [figure(each, command, of=of) for each in panels])
    return {"command": command, "figures": figures}


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
