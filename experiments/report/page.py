"""The parts of a report as one HTML page that loads nothing from elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from .figure import csv_text, data_link

_HERE = Path(__file__).parent
_OPEN = 4  # runs, at most, whose figures are shown without being asked for
_IN_TITLES = {"seed"}  # settings that are in the runs' titles
_VERDICTS = ("holds", "fails", "not settled", "not measured")
Part = dict[str, Any]


def page(content: Mapping[str, list[Part]], problems: Sequence[str], subject: str) -> str:
    """The text of index.html; `problems` are lines on what could not be shown."""
    runs = content["runs"]
    known = {run["name"]: run["id"] for run in runs}
    verdicts = [
        {**verdict, "experiment": experiment["id"]}
        for experiment in content["experiments"]
        for verdict in experiment["verdicts"]
    ]
    differing, settings = _differing(runs), runs[0]["settings"] if runs else {}
    counts = Counter(verdict["verdict"] for verdict in verdicts)
    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    return environment.get_template("template.html").render(
        **content,
        subject=subject,
        problems=problems,
        verdicts=verdicts,
        counts=[f"{counts[name]} {name}" for name in _VERDICTS if counts[name]],
        claims_csv=_claims_csv(verdicts),
        differing=differing,
        same={
            key: value for key, value in settings.items() if key not in {*differing, *_IN_TITLES}
        },
        environments=_environments(runs),
        known=known,
        opened=len(runs) <= _OPEN,
        style=_file("style.css"),
        script=_file("axis.js") + _file("chart.js") + _file("page.js"),
    )


def _file(name: str) -> Markup:
    return Markup((_HERE / name).read_text(encoding="utf-8"))


def _claims_csv(verdicts: Sequence[Part]) -> str:
    names = ("claim", "sentence", "source", "quantity", "published", "ours", "line", "seeds")
    names += ("steps", "scale", "verdict", "note", "command")  # type: ignore[assignment]
    return data_link(csv_text({name: [verdict[name] for verdict in verdicts] for name in names}))


def _differing(runs: Sequence[Part]) -> list[str]:
    """The settings that are not the same in all runs, seeds aside."""
    keys = {key: None for run in runs for key in run["settings"]}
    return [
        key
        for key in keys
        if key not in _IN_TITLES and len({str(run["settings"].get(key)) for run in runs}) > 1
    ]


def _environments(runs: Sequence[Part]) -> list[Part]:
    """Each environment that runs were made in, with those runs."""
    groups: dict[tuple[tuple[str, str], ...], list[Part]] = {}
    for run in runs:
        groups.setdefault(tuple(run["environment"].items()), []).append(run)
    return [
        {"facts": dict(facts), "runs": [{"id": run["id"], "name": run["name"]} for run in members]}
        for facts, members in groups.items()
    ]
