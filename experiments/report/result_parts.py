"""Experiments, comparisons, scaling laws and figures of stability as parts of the page, from their
JSON files."""

from __future__ import annotations

import hashlib
import shlex
from pathlib import Path
from typing import Any

from reloop.conf.command import as_word
from reloop.conf.mistakes import RunError
from reloop.conf.words import run_py
from reloop.training.run_folder.files import Record, read_json, read_record

from .csv_panels import panels_of
from .figure import Figure, figure, short
from .folders import run_of
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
        lambda: [figure(panel, command, of=name) for panel in result["panels"]],
    )  # fmt: skip
    return {
        "id": _id("experiment", path),
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
        from .evaluation_panels import comparison_panels  # loads matplotlib

        of = path.parent.name
        return [figure(panel, command, of=of) for panel in comparison_panels(result)]  # type: ignore[arg-type]

    return {
        "id": _id("comparison", path),
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
        "id": _id("law", folder),
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
        "id": _id("stability", path), "title": title, "path": path.as_posix(),
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


def _id(kind: str, path: Path) -> str:
    return f"{kind}-{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:10]}"
