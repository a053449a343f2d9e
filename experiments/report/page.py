"""The page: what the runs' table and the kept results hold, with each panel's picture.

print(write_report(ReportSettings(folder="runs", output="report")))
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from pandas import DataFrame

from looplab.conf.checksum import key_of
from looplab.conf.command import as_word
from looplab.conf.mistakes import ConfigError
from looplab.conf.words import as_typed, run_py
from looplab.evaluation.drawing import curve_styles, svg
from looplab.evaluation.kept import kept
from looplab.evaluation.panel import Panel, file_name
from looplab.experiments.runs_table import Row, differing, no_runs, rows_of
from looplab.training.run_folder.files import read_json, read_record, write_bytes
from looplab.training.run_folder.metrics import Metrics
from looplab.training.run_folder.sources import sources_of
from looplab.training.run_folder.status import is_run

from ..settings import ReportSettings

_WITH_FIGURES = 20  # runs, at most, that are shown with their figures
_OPEN = 4  # runs, at most, whose figures are shown without being asked for
_CACHE = "report_cache"
_HERE = Path(__file__).parent
_EMPTY = {"members": [], "verdicts": [], "missing": [], "remarks": [], "command": "", "source": ""}
Part = dict[str, Any]


def write_report(settings: ReportSettings) -> str:
    """Write <output>/index.html of everything in a folder; returns the text to print. A file
    that cannot be used is named on the page and in the text. Raises ConfigError for invalid
    settings, and where there is nothing to show."""
    settings.check()
    folder, problems = Path(settings.folder), list[str]()
    rows, results = rows_of(folder), results_in(folder, problems)
    if not rows and not results:
        raise ConfigError("no runs yet", no_runs(folder))
    figures = Figures(folder / _CACHE)
    for result in results:
        result["figures"] = figures.of(result["panels"], result["command"], result["name"])
    problems += [
        f"{row['path']} is not shown: {row['remarks']}" for row in rows if not row["settings"]
    ]
    rows = [row for row in rows if row["settings"]]
    runs = [_run(row, figures if len(rows) <= _WITH_FIGURES else None, problems) for row in rows]
    for old in figures.folder.glob("*.json"):
        if old.stem not in figures.keys:  # of no panel any more
            old.unlink()
    text = page(runs, results, problems).encode()
    path = Path(settings.output) / "index.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, text)
    claims = sum(len(result["verdicts"]) for result in results)
    said = f"results: {len(results)}, runs: {len(runs)}, claims: {claims}"
    lines = [said, *(f"  {line}" for line in problems), f"{path}: {len(text) / 1e6:.2f} MB"]
    return "\n".join(lines)


def results_in(folder: Path, problems: list[str]) -> list[Part]:
    """The kept results that have panels, at most two folders below this one, the experiments first;
    adds a line to `problems` for each file that cannot be used."""
    results = list[Part]()
    for path in sorted([*folder.glob("*/*.json"), *folder.glob("*/*/*.json")]):
        if path.parent.name == _CACHE or any(map(is_run, path.parents[:2])):
            continue
        content = read_json(path)
        kind = content.get("kind", "") if isinstance(content, dict) else ""
        record, name = read_record(path, kind), path.parent.name
        if record.content is None:
            problems.append(f"{path} is not shown: {record.problem.removeprefix(f'{path} ')}")
        elif kind and "panels" in record.content:
            try:
                panels = [Panel.read(panel) for panel in record.content["panels"]]
            except TypeError:
                problems.append(f"{path} is not shown: its panels are of another version's form")
                continue
            own = {"id": f"result-{len(results)}", "path": path.parent.as_posix(), "name": name}
            results.append(_EMPTY | own | {"title": name} | record.content | {"panels": panels})
    return sorted(results, key=lambda result: "experiment" not in result)


def _run(row: Row, figures: Figures | None, problems: list[str]) -> Part:
    """A run from its row, its log and its command, with `figures` where these are drawn."""
    from looplab.evaluation.figures import (  # with torch
        FORMAT,
        evaluation_panels,
        model_label,
        training_panels,
    )

    settings, evaluation, path = row["settings"], row["evaluation"], Path(row["path"])
    environment = read_record(path / "environment.json", "environment").content or {}
    command = as_typed(environment.get("command"))
    panels: list[Part] = []
    if figures is not None:
        if evaluation and evaluation.get("format") == FORMAT:
            panels += figures.of(evaluation_panels(evaluation), evaluation["command"], row["name"])
        elif evaluation:
            problems.append(f"{path}: its evaluation is of an earlier version's form")
        records, skipped = Metrics(path / "metrics.jsonl").read()
        problems += [f"{path / 'metrics.jsonl'}: {line}" for line in skipped]
        kind = evaluation.get("style", row["model"])
        panels += figures.of(training_panels(records, kind), command, row["name"])
    loops = settings["model.n_layer" if row["model"] == "standard" else "loops.b"]
    task = f"{row['task'].replace('_', ' ')}, d = {settings['task.dims']}"
    remarks = [row["remarks"]] if row["remarks"] else []
    if row["state"] not in ("finished", "new"):
        remarks.insert(0, f"{row['state']} at step {row['step']:,} of {row['steps']:,}")
    return row | {
        "id": f"run-{key_of(row['path'])}",
        "title": f"{task}: {model_label(row['model'], loops)}, seed {row['seed']}",
        "command": command,
        "error": short(row["error"]),
        "remarks": remarks,
        "figures": panels,
    }


class Figures:
    """Panels as the page holds them; their pictures are kept in a folder, to be drawn once."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._code = folder, key_of(sources_of("evaluation"))
        self.keys: set[str] = set()

    def of(self, panels: Iterable[Panel], command: str, of: str) -> list[Part]:
        """The figures of panels; `command` makes their numbers, `of` is what they belong to, for
        the names of their files."""
        return [self._figure(panel, command, file_name(f"{of}-{panel.name}")) for panel in panels]

    def _figure(self, panel: Panel, command: str, name: str) -> Part:
        """`csv` is a data link, `names` the legend: for each label its colour and the numbers of
        its curves."""
        names: dict[str, Part] = {}
        styles = curve_styles(panel.curves)
        for index, (curve, style) in enumerate(zip(panel.curves, styles, strict=True)):
            line = style["linestyle"]
            dash = "" if isinstance(line, str) else " ".join(f"{length:g}" for length in line[1])
            entry = {"label": curve.label, "colour": style["color"], "dash": dash, "curves": []}
            names.setdefault(curve.label, entry)["curves"].append(index)
        # The page's script splits rows at commas.
        frame = panel.frame().rename(columns=_without_commas)
        if panel.x_names:
            frame.iloc[:, 0] = [*map(_without_commas, panel.x_names)]
        request = {"panel": key_of(panel.plain()), "name": name, "code": self._code}
        picture = kept(self.folder, "figure", request, lambda: ({"svg": svg(panel, name)}, None))
        self.keys.add(picture["key"])
        return {
            "panel": panel,
            "file": f"{name}.csv",
            "csv": data_link(frame.to_csv(index=False, float_format="%.5g")),
            "svg": Markup(picture["svg"]),
            "names": list(names.values()),
            "command": command,
        }


def _without_commas(name: object) -> str:
    return re.sub(r"[,\s]+", " ", str(name))


def data_link(text: str) -> str:
    """A CSV text as a link that holds it."""
    return f"data:text/csv;charset=utf-8,{quote(text, safe=',:;=+*/()@!$[]')}"


def short(value: float | None) -> str:
    """A number as the page writes it: 0.0123, 1.50e-13; – where there is none."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:.3g}" if 1e-4 <= abs(value) < 1e4 or value == 0 else f"{value:.2e}"


def page(runs: Sequence[Part], results: Sequence[Part], problems: Sequence[str]) -> str:
    """The text of index.html; `problems` are lines on what could not be shown."""
    from looplab.experiments.claims import estimate_text, line_text  # with torch

    claims = [
        claim | {"ours": estimate_text(claim), "side": line_text(claim), "of": result["id"]}
        for result in results
        for claim in result["verdicts"]
    ]
    own = differing(runs)
    common = runs[0]["settings"] if runs else {}
    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    return environment.get_template("template.html").render(
        runs=runs,
        results=results,
        problems=problems,
        claims=claims,
        counts=Counter(claim["verdict"] for claim in claims),
        claims_csv=data_link(DataFrame(claims).to_csv(index=False)),
        differing=own,
        same={key: as_word(value) for key, value in common.items() if key not in (*own, "seed")},
        places={run["name"]: run["id"] for run in runs},
        opened=len(runs) <= _OPEN,
        most=_WITH_FIGURES,
        run_py=run_py,
        style=Markup((_HERE / "style.css").read_text(encoding="utf-8")),
        script=Markup((_HERE / "page.js").read_text(encoding="utf-8")),
    )
