"""The page: what the runs' table and the kept results hold, with each panel's picture.

print(write_report(ReportSettings(folder="runs", output="report")))
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from textwrap import shorten
from typing import Any
from urllib.parse import quote

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from pandas import DataFrame

from looplab.conf.checksum import key_of
from looplab.conf.in_words import in_words, labels_of_settings, settings_key
from looplab.conf.mistakes import ConfigError
from looplab.conf.saved import read_config
from looplab.conf.words import as_typed
from looplab.evaluation.evaluation import FORMAT, Evaluation
from looplab.evaluation.kept import arrays_of, kept
from looplab.evaluation.runs_table import Row, differing, no_runs, rows_of
from looplab.evaluation.statistics import finite, hierarchical_bootstrap
from looplab.evaluation.verdict import Verdict
from looplab.show.drawing import curve_styles, svg
from looplab.show.panel import Panel, file_name
from looplab.show.verdicts import (
    count_text,
    estimate_text,
    line_text,
    published_text,
    statement_lines,
)
from looplab.training.run_folder.files import read_json, read_record, write_bytes
from looplab.training.run_folder.metrics import Metrics
from looplab.training.run_folder.sources import sources_of
from looplab.training.run_folder.status import is_run

from ..settings import ReportSettings
from .findings import comparisons_of, findings

_WITH_FIGURES = 20  # runs, at most, that are shown with their figures
_COLUMNS = 6  # settings, at most, with a column each
_SORTS = ("Grids", "Experiments", "Comparisons and others")
_HERE = Path(__file__).parent
_EMPTY: Mapping[str, Any] = {
    **{key: [] for key in ("members", "verdicts", "missing", "remarks", "settings", "tests")},
    **{"command": "", "source": "", "scale": "", "varied": [], "shared": []},
}
Part = dict[str, Any]


def write_report(settings: ReportSettings) -> str:
    """Write <output>/index.html of everything in a folder, or <output>/NAME.html of what is asked
    for; returns the text to print. A file that cannot be used is named on the page and in the text.
    Raises ConfigError where there is nothing to show."""
    folder, problems = Path(settings.folder), list[str]()
    if paths := settings.paths():
        results = results_in([file for path in paths for file in path.glob("*.json")], problems)
        members = [Path(member["run"]) for result in results for member in result["members"]]
        rows = rows_of([*filter(is_run, dict.fromkeys([*paths, *members]))])
        name = "-".join(path.name for path in paths)[:100]
    else:
        results = results_in([*folder.glob("*/*.json"), *folder.glob("*/*/*.json")], problems)
        rows, name = rows_of(folder), "index"
    problems += [
        f"{row['path']} is not shown: {row['remarks']}" for row in rows if not row["settings"]
    ]
    rows = [row for row in rows if row["settings"]]
    if not rows and not results:
        if not paths and not problems:
            raise ConfigError("no runs yet", no_runs(folder))
        why = "; ".join(problems) or f"no run and no result in {', '.join(map(str, paths))}"
        raise ConfigError("runs" if paths else "folder", f"holds nothing to report: {why}")
    figures = Figures(Path(settings.output) / "cache")
    for result in results:
        result["figures"] = figures.of(result["panels"], result["name"])
    runs = [_run(row, figures if len(rows) <= _WITH_FIGURES else None, problems) for row in rows]
    for old in figures.folder.glob("*.json"):
        if not paths and old.stem not in figures.keys:  # of no panel any more
            old.unlink()
    title = "Everything measured"
    if paths:
        title = shorten("; ".join(each["title"] for each in results or runs), 200)
        if len(results) == 1 and (figure := results[0]["source"].partition(", ")[2]):
            title = f"{figure}: {title}"
    text = page(f"{title[0].upper()}{title[1:]}", runs, results, problems).encode()
    path = Path(settings.output) / f"{name}.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, text)
    claims = sum(len(result["verdicts"]) for result in results)
    said = f"results: {len(results)}, runs: {len(runs)}, claims: {claims}"
    lines = [said, *(f"  {line}" for line in problems), f"{path}: {len(text) / 1e6:.2f} MB"]
    return "\n".join(lines)


def results_in(paths: Iterable[Path], problems: list[str]) -> list[Part]:
    """The kept results among JSON files that have panels, grids first, then experiments; adds a
    line to `problems` for each file that cannot be used."""
    results = list[Part]()
    for path in sorted(paths):
        if any(map(is_run, path.parents[:2])):
            continue
        content = read_json(path)
        kind = content.get("kind", "") if isinstance(content, dict) else ""
        record, name = read_record(path, kind), path.parent.name
        if record.content is None:
            problems.append(f"{path} is not shown: {record.problem.removeprefix(f'{path} ')}")
        elif kind and "panels" in record.content:
            try:
                panels = [Panel.read(panel) for panel in record.content["panels"]]
                verdicts = [*map(Verdict.read, record.content.get("verdicts", ()))]
            except TypeError:
                problems.append(f"{path} is not shown: it is of another version's form")
                continue
            own = {"id": f"result-{len(results)}", "path": path.parent.as_posix(), "name": name}
            sort = _SORTS[0 if name.startswith("grid-") else 1 if kind == "experiment" else 2]
            result = {**_EMPTY, **own, "title": name} | record.content
            results.append(result | {"panels": panels, "verdicts": verdicts, "sort": sort})
    return sorted(results, key=lambda result: _SORTS.index(result["sort"]))


def _run(row: Row, figures: Figures | None, problems: list[str]) -> Part:
    """A run from its row, its log and its command, with `figures` where these are drawn."""
    # With torch.
    from looplab.show.figures import evaluation_panels, model_label, training_panels
    from looplab.training.assemble import build_curriculum, build_task

    settings, evaluation, path = row["settings"], row["evaluation"], Path(row["path"])
    environment = read_record(path / "environment.json", "environment").content or {}
    panels: list[Part] = []
    if figures is not None:
        if evaluation and evaluation.get("format") == FORMAT:
            panels += figures.of(evaluation_panels(Evaluation.read(evaluation)), row["name"])
        elif evaluation:
            problems.append(f"{path}: its evaluation is of an earlier version's form")
        records, skipped = Metrics(path / "metrics.jsonl").read()
        problems += [f"{path / 'metrics.jsonl'}: {line}" for line in skipped]
        kind = evaluation.get("style", row["model"])
        with suppress(ConfigError):  # of a task that is no longer there
            config = read_config(path)
            curriculum = build_curriculum(config, build_task(config))
            drawn = training_panels(records, kind, curriculum, config.task.is_text)
            panels += figures.of(drawn, row["name"])
    loops = settings["model.n_layer" if row["model"] == "standard" else "loops.b"]
    task = row["task"].replace("_", " ")
    task += "" if row["task"] == "language" else f", d = {settings['task.dims']}"
    remarks = [row["remarks"]] if row["remarks"] else []
    if row["state"] not in ("finished", "new"):
        remarks.insert(0, f"{row['state']} at step {row['step']:,} of {row['steps']:,}")
    model = f"{task}: {model_label(row['model'], loops)}"
    return row | {
        "id": f"run-{key_of(row['path'])}",
        "model": model,
        "title": f"{model}, seed {row['seed']}",
        "command": as_typed(environment.get("command")),
        "remarks": remarks,
        "figures": panels,
    }


def by_setting(runs: Sequence[Part]) -> tuple[list[str], list[Part]]:
    """The columns of the settings in which runs differ, and a row for each combination: its
    `values`, its `title`, its `runs`, which are its seeds, and their `error`. Of more settings than
    have columns there is one column, of what is said of a group in words."""
    columns = differing(runs)
    labels = labels_of_settings([run["settings"] for run in runs])
    if len(columns) > _COLUMNS:
        columns = {"differs in": labels}
    models = [run["model"] for run in runs]
    if len(set(models)) > 1 or not columns:
        columns = {"model": models, **columns}
    rows: dict[tuple[str, str, int], Part] = {}
    copies = Counter[tuple[str, object]]()
    for index, run in enumerate(runs):
        values = [column[index] for column in columns.values()]
        said = [
            in_words(key, column[index])
            for key, column in columns.items()
            if key not in ("model", "differs in")
        ]
        row = {"values": values, "title": ", ".join([run["model"], *said]), "runs": []}
        set_aside = run["name"].partition("-before-")[2]  # by again=true
        settings = settings_key(run["settings"])
        copy = copies[settings, run["seed"]]  # one that differs in nothing is no other seed
        copies[settings, run["seed"]] += 1
        key = settings, set_aside, copy
        rows.setdefault(key, row)["runs"].append(run)
    return [*columns], [row | {"error": _error(row["runs"])} for row in rows.values()]


def _error(seeds: Sequence[Part]) -> str:
    """The mean error of runs of one setting after b loops, with its 90 % interval over seeds and
    prompts where all of them were measured on the same ones."""

    known = [run["error"] for run in seeds if run["error"] is not None]
    text = f"{sum(known) / len(known):.3g}" if known else "–"
    if seeds[0]["task"] == "language":
        return f"{text} bits per byte"
    with suppress(KeyError, OSError, ValueError):  # not measured, or not on the same prompts
        found = [(Path(run["path"]) / "evaluations", run["evaluation"]) for run in seeds]
        last = np.stack([arrays_of(*each)["model_at_b"][:, -1] for each in found])
        estimate = hierarchical_bootstrap([last], itemgetter(0), log=True)
        text = estimate_text(*map(finite, estimate[:3]))
    return text


class Figures:
    """Panels as the page holds them; their pictures are kept in a folder, to be drawn once."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._code = folder, key_of(sources_of("show"))
        self.keys: set[str] = set()

    def of(self, panels: Iterable[Panel], of: str) -> list[Part]:
        """The figures of panels; `of` is what they belong to, for the names of their files."""
        return [self._figure(panel, file_name(f"{of}-{panel.name}")) for panel in panels]

    def _figure(self, panel: Panel, name: str) -> Part:
        """`csv` is a data link, `names` the legend: for each label its colour and the numbers of
        its curves."""
        names: dict[str, Part] = {}
        styles = curve_styles(panel.curves)
        for index, (curve, style) in enumerate(zip(panel.curves, styles, strict=True)):
            line = style["linestyle"]
            dash = "" if isinstance(line, str) else " ".join(f"{length:g}" for length in line[1])
            entry = {"label": curve.label, "colour": style["color"], "dash": dash, "curves": []}
            if curve.label:
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
        }


def _without_commas(name: object) -> str:
    return re.sub(r"[,\s]+", " ", str(name))


def data_link(text: str) -> str:
    """A CSV text as a link that holds it."""
    return f"data:text/csv;charset=utf-8,{quote(text, safe=',:;=+*/()@!$[]')}"


def page(title: str, runs: Sequence[Part], results: Sequence[Part], problems: Sequence[str]) -> str:
    """The text of a page; `problems` are lines on what could not be shown."""
    results = [
        result
        | {"comparisons": comparisons_of(result)}
        | {"statements": statement_lines(result["verdicts"])}
        for result in results
    ]
    claims = [
        {
            **claim.plain(),
            "published": published_text(claim),
            "ours": estimate_text(claim.mean, claim.low, claim.high),
            "side": line_text(claim),
            "of": result["id"],
        }
        for result in results
        for claim in result["verdicts"]
    ]
    columns, settings = by_setting(runs)
    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["estimate"] = estimate_text
    return environment.get_template("template.html").render(
        title=title,
        findings=findings(results, claims, settings),
        runs=runs,
        sorts={sort: [each for each in results if each["sort"] == sort] for sort in _SORTS},
        problems=problems,
        claims=claims,
        count=count_text([claim["verdict"] for claim in claims]),
        claims_csv=data_link(DataFrame(claims).to_csv(index=False)),
        columns=columns,
        settings=settings,
        places={run["name"]: run["id"] for run in runs},
        most=_WITH_FIGURES,
        style=Markup((_HERE / "style.css").read_text(encoding="utf-8")),
        script=Markup((_HERE / "page.js").read_text(encoding="utf-8")),
    )
