"""The page: what the runs' table and the kept results hold, with each panel's picture.

print(write_report(ReportSettings(folder="runs", output="report")))
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import shorten
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
from looplab.evaluation.plain import Content
from looplab.evaluation.runs_table import Row, differing, no_runs, rows_of
from looplab.evaluation.statistics import finite, hierarchical_bootstrap
from looplab.evaluation.verdict import Verdict
from looplab.show.drawing import curve_styles
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
from .content import (
    KeptResult,
    Name,
    Seeds,
    ShownClaim,
    ShownPanel,
    ShownRun,
)
from .findings import comparisons_of, findings
from .svg import svg

_WITH_FIGURES = 20  # runs, at most, that are shown with their figures
_COLUMNS = 6  # settings, at most, with a column each
_GRIDS = "Grids"
_EXPERIMENTS = "Experiments"
_OTHERS = "Comparisons and others"
_SORTS = (_GRIDS, _EXPERIMENTS, _OTHERS)
_HERE = Path(__file__).parent


def write_report(settings: ReportSettings) -> str:
    """Write <output>/index.html of everything in a folder, or <output>/NAME.html of what is asked
    for; returns the text to print.

    A file that cannot be used is named on the page and in the text. Raises ConfigError where there
    is nothing to show.
    """
    folder = Path(settings.folder)
    paths = settings.paths()
    problems = list[str]()
    if paths:
        results = _results_in([file for path in paths for file in path.glob("*.json")], problems)
        members = [Path(member["run"]) for result in results for member in result.members]
        rows = rows_of([path for path in dict.fromkeys(paths + members) if is_run(path)])
        name = "-".join(path.name for path in paths)[:100]
    else:
        files = list(folder.glob("*/*.json"))
        files += folder.glob("*/*/*.json")
        results = _results_in(files, problems)
        rows = rows_of(folder)
        name = "index"
    for row in rows:
        if not row.settings:
            problems.append(f"{row.path} is not shown: {row.remarks}")
    rows = [row for row in rows if row.settings]
    if not rows and not results:
        raise _nothing_to_show(settings, problems)
    figures = Figures(Path(settings.output) / "cache")
    pictures = {result.id: figures.of(result.panels, result.name) for result in results}
    # With many runs the page has the commands that draw them in the place of their figures.
    drawn = figures if len(rows) <= _WITH_FIGURES else None
    runs = [_run(row, drawn, problems) for row in rows]
    if not paths:
        figures.delete_others()
    title = _title(results, runs) if paths else "Everything measured"
    title = f"{title[0].upper()}{title[1:]}"
    text = _page(title, runs, results, pictures, problems).encode()
    path = Path(settings.output) / f"{name}.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, text)
    claims = sum(len(result.claims) for result in results)
    lines = [f"results: {len(results)}, runs: {len(runs)}, claims: {claims}"]
    lines += [f"  {problem}" for problem in problems]
    lines.append(f"{path}: {len(text) / 1e6:.2f} MB")
    return "\n".join(lines)


def page_of(path: Path, kind: str, content: Content) -> str:
    """The page of one result, the content of the file at `path`."""
    result = _result(path, kind, "result-0", content)
    with TemporaryDirectory() as folder:  # a page of one result keeps no pictures
        pictures = {result.id: Figures(Path(folder)).of(result.panels, result.name)}
    return _page(result.title, [], [result], pictures, [])


def _nothing_to_show(settings: ReportSettings, problems: Sequence[str]) -> ConfigError:
    paths = settings.paths()
    if not paths and not problems:
        return ConfigError("no runs yet", no_runs(Path(settings.folder)))
    why = "; ".join(problems) or f"no run and no result in {', '.join(map(str, paths))}"
    return ConfigError("runs" if paths else "folder", f"holds nothing to report: {why}")


def _title(results: Sequence[KeptResult], runs: Sequence[ShownRun]) -> str:
    """The title of a page of these results or, where there are none, of these runs."""
    titles = [result.title for result in results] or [run.title for run in runs]
    title = shorten("; ".join(titles), 200)
    if len(results) == 1 and (figure := results[0].source.partition(", ")[2]):
        return f"{figure}: {title}"
    return title


def _results_in(paths: Iterable[Path], problems: list[str]) -> list[KeptResult]:
    """The kept results among JSON files that have panels, grids first, then experiments; adds a
    line to `problems` for each file that cannot be used."""
    results = list[KeptResult]()
    for path in sorted(paths):
        if any(map(is_run, path.parents[:2])):  # a file of a run, which has a section of its own
            continue
        content = read_json(path)
        kind = content.get("kind", "") if isinstance(content, dict) else ""
        record = read_record(path, kind)
        if record.content is None:
            problems.append(f"{path} is not shown: {record.problem.removeprefix(f'{path} ')}")
        elif kind and "panels" in record.content:
            try:
                results.append(_result(path, kind, f"result-{len(results)}", record.content))
            except TypeError:
                problems.append(f"{path} is not shown: it is of another version's form")
    return sorted(results, key=lambda result: _SORTS.index(result.sort))


def _result(path: Path, kind: str, identity: str, content: Content) -> KeptResult:
    """The result of a file. Raises TypeError for one of another version's form."""
    name = path.parent.name
    sort = _OTHERS
    if name.startswith("grid-"):
        sort = _GRIDS
    elif kind == "experiment":
        sort = _EXPERIMENTS
    known = {
        field.name: content[field.name] for field in fields(KeptResult) if field.name in content
    }
    known["panels"] = [Panel.read(panel) for panel in content["panels"]]
    verdicts = map(Verdict.read, content.get("verdicts", ()))
    known["claims"] = [_claim(verdict, identity) for verdict in verdicts]
    if sort != _GRIDS:
        known.pop("settings", None)  # of other kinds it is no table
    place = {"id": identity, "sort": sort, "path": path.parent.as_posix(), "name": name}
    return KeptResult(**({"title": name} | place | known))


def _claim(verdict: Verdict, identity: str) -> ShownClaim:
    """A verdict of the result with this id."""
    values = vars(verdict) | {"published": published_text(verdict)}
    ours = estimate_text(verdict.mean, verdict.low, verdict.high)
    return ShownClaim(**values, ours=ours, side=line_text(verdict), of=identity)


def _run(row: Row, figures: Figures | None, problems: list[str]) -> ShownRun:
    """A run from its row, its log and its command, with `figures` where these are drawn."""
    from looplab.show.figures import model_label  # with torch

    loops = row.settings["model.n_layer" if row.model == "standard" else "loops.b"]
    task = row.task.replace("_", " ")
    if row.task != "language":
        task += f", d = {row.settings['task.dims']}"
    remarks = []
    if row.state not in ("finished", "new"):
        remarks.append(f"{row.state} at step {row.step:,} of {row.steps:,}")
    if row.remarks:
        remarks.append(row.remarks)
    environment = read_record(Path(row.path) / "environment.json", "environment").content or {}
    panels = _panels_of_run(row, problems) if figures else []
    return ShownRun(
        row=row,
        id=f"run-{key_of(row.path)}",
        model=f"{task}: {model_label(row.model, loops)}",
        command=as_typed(environment.get("command")),
        remarks=remarks,
        figures=figures.of(panels, row.name) if figures else [],
    )


def _panels_of_run(row: Row, problems: list[str]) -> list[Panel]:
    """The panels of a run's evaluation and of its training."""
    # With torch.
    from looplab.show.figures import evaluation_panels, training_panels
    from looplab.training.assemble import build_curriculum, build_task

    path = Path(row.path)
    panels: list[Panel] = []
    if row.evaluation.get("format") == FORMAT:
        panels += evaluation_panels(Evaluation.read(row.evaluation))
    elif row.evaluation:
        problems.append(f"{path}: its evaluation is of an earlier version's form")
    records, skipped = Metrics(path / "metrics.jsonl").read()
    problems += [f"{path / 'metrics.jsonl'}: {line}" for line in skipped]
    with suppress(ConfigError):  # of a task that is no longer there
        config = read_config(path)
        curriculum = build_curriculum(config, build_task(config))
        kind = row.evaluation.get("style", row.model)
        panels += training_panels(records, kind, curriculum, config.task.is_text)
    return panels


def _by_setting(runs: Sequence[ShownRun]) -> tuple[list[str], list[Seeds]]:
    """The columns of the settings in which runs differ, and a row for each combination. Of more
    settings than have columns there is one column, of what is said of a group in words."""
    columns = differing([run.row for run in runs])
    if len(columns) > _COLUMNS:
        # Words name only what sets a run apart, so that one column holds any number of settings.
        columns = {"differs in": labels_of_settings([run.row.settings for run in runs])}
    models = [run.model for run in runs]
    if len(set(models)) > 1 or not columns:
        columns = {"model": models} | columns
    indices: dict[tuple[str, str, int], list[int]] = {}
    copies = Counter[tuple[str, object]]()
    for index, run in enumerate(runs):
        settings = settings_key(run.row.settings)
        copy = copies[settings, run.row.seed]  # one that differs in nothing is no other seed
        copies[settings, run.row.seed] += 1
        set_aside = run.row.name.partition("-before-")[2]  # by again=true
        indices.setdefault((settings, set_aside, copy), []).append(index)
    rows = []
    for group in indices.values():
        values = [column[group[0]] for column in columns.values()]
        title = models[group[0]]
        for key, value in zip(columns, values, strict=True):
            if key not in ("model", "differs in"):
                title += f", {in_words(key, value)}"
        members = [runs[index] for index in group]
        rows.append(Seeds(values, title, members, _error([run.row for run in members])))
    return list(columns), rows


def _error(seeds: Sequence[Row]) -> str:
    """The mean error of runs of one setting after b loops, with its 90 % interval over seeds and
    prompts where all of them were measured on the same ones."""
    known = [row.error for row in seeds if row.error is not None]
    text = f"{sum(known) / len(known):.3g}" if known else "–"
    if seeds[0].task == "language":
        return f"{text} bits per byte"
    with suppress(KeyError, OSError, ValueError):  # not measured, or not on the same prompts
        last = []
        for row in seeds:
            arrays = arrays_of(Path(row.path) / "evaluations", row.evaluation)
            last.append(arrays["model_at_b"][:, -1])
        estimate = hierarchical_bootstrap([np.stack(last)], itemgetter(0), log=True)
        return estimate_text(*map(finite, estimate[:3]))
    return text


class Figures:
    """Panels as the page holds them; their pictures are kept in a folder, to be drawn once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._code = key_of(sources_of("show"))
        self._keys: set[str] = set()

    def of(self, panels: Iterable[Panel], owner: str) -> list[ShownPanel]:
        """The figures of panels; `owner` is what they belong to, for the names of their files."""
        return [self._figure(panel, file_name(f"{owner}-{panel.name}")) for panel in panels]

    def delete_others(self) -> None:
        """Delete the pictures of no panel any more."""
        for path in self.folder.glob("*.json"):
            if path.stem not in self._keys:
                # Only after a page of everything: another one knows only its own pictures.
                path.unlink()

    def _figure(self, panel: Panel, name: str) -> ShownPanel:
        # A picture is drawn once for its panel and our code.
        request = {"panel": key_of(panel.plain()), "name": name, "code": self._code}
        picture = kept(self.folder, "figure", request, lambda: ({"svg": svg(panel, name)}, None))
        self._keys.add(picture["key"])
        # The page's script splits rows at commas.
        frame = panel.frame().rename(columns=_without_commas)
        if panel.x_names:
            frame.iloc[:, 0] = list(map(_without_commas, panel.x_names))
        return ShownPanel(
            panel=panel,
            file=f"{name}.csv",
            csv=_data_link(frame.to_csv(index=False, float_format="%.5g")),
            svg=Markup(picture["svg"]),
            names=_names(panel),
        )


def _names(panel: Panel) -> list[Name]:
    """The legend of a panel, in which curves of one label have one name."""
    names: dict[str, Name] = {}
    styles = curve_styles(panel.curves)
    for index, (curve, style) in enumerate(zip(panel.curves, styles, strict=True)):
        if not curve.label:
            continue
        line = style["linestyle"]
        dash = "" if isinstance(line, str) else " ".join(f"{length:g}" for length in line[1])
        name = names.setdefault(curve.label, Name(curve.label, style["color"], dash))
        name.curves.append(index)
    return list(names.values())


def _without_commas(name: object) -> str:
    return re.sub(r"[,\s]+", " ", str(name))


def _data_link(text: str) -> str:
    """A CSV text as a link that holds it."""
    return f"data:text/csv;charset=utf-8,{quote(text, safe=',:;=+*/()@!$[]')}"


def _page(
    title: str,
    runs: Sequence[ShownRun],
    results: Sequence[KeptResult],
    pictures: Mapping[str, Sequence[ShownPanel]],
    problems: Sequence[str],
) -> str:
    """The text of a page: `pictures` are those of results, by their id, and `problems` lines on
    what could not be shown."""
    sorts: dict[str, list[KeptResult]] = {sort: [] for sort in _SORTS}
    for result in results:
        sorts[result.sort].append(result)
    claims = [claim for result in results for claim in result.claims]
    comparisons = [comparison for result in results for comparison in comparisons_of(result)]
    columns, settings = _by_setting(runs)
    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "estimate": estimate_text,
        "comparisons": comparisons_of,
        "statements": statement_lines,
    }
    claims_table = DataFrame([claim.plain() for claim in claims])
    return environment.get_template("template.html").render(
        title=title,
        findings=findings(claims, comparisons, settings),
        runs=runs,
        sorts=sorts,
        pictures=pictures,
        problems=problems,
        count=count_text([claim.verdict for claim in claims]),
        has_claims=bool(claims),
        claims_csv=_data_link(claims_table.to_csv(index=False)),
        columns=columns,
        settings=settings,
        places={run.row.name: run.id for run in runs},
        most=_WITH_FIGURES,
        style=Markup(_text("style.css")),
        script=Markup(_text("page.js")),
    )


def _text(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")
