"""Gather what was measured and write the page.

print(write_report(ReportSettings(folder="runs", output="report")))
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from looplab.conf.mistakes import ConfigError, RunError, one_line
from looplab.training.run_folder.files import write_bytes

from .command import ReportSettings
from .folders import Found, find

if TYPE_CHECKING:
    from .parts import Kept

_WITH_FIGURES = 20  # runs, at most, that are shown with their figures
_HERE = Path(__file__).parent
_OPEN = 4  # runs, at most, whose figures are shown without being asked for
_IN_TITLES = {"seed"}  # settings that are in the runs' titles
_VERDICTS = ("holds", "fails", "not settled", "not measured")
Part = dict[str, Any]


def write_report(settings: ReportSettings) -> str:
    """Write <output>/index.html of what the settings ask for; returns the text to print. A file
    that cannot be used is named on the page and in the text. Raises ConfigError for invalid
    settings, and where there is nothing to show."""
    settings.check()
    found = find(settings)
    from .parts import Kept  # loads torch, when the settings are known to be right

    kept = Kept(Path(settings.folder) / "report_cache")
    content, problems = _gathered(found, kept)
    if settings.experiment is None and not settings.runs:
        kept.remove_others()
    text = page(content, problems, _subject(settings))
    path = Path(settings.output) / "index.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode()
    if not path.exists() or path.read_bytes() != data:
        write_bytes(path, data)
    return _said(content, problems, kept, path, len(data))


def _gathered(found: Found, kept: Kept) -> tuple[dict[str, list[Part]], list[str]]:
    """The parts of the page by section, and a line for each file that cannot be used."""
    from . import parts as page_parts

    problems: list[str] = []

    def parts(paths: Sequence[Path], make: Callable[[Path, Kept], Part]) -> list[Part]:
        made = []
        for path in paths:
            try:
                made.append(make(path, kept))
            except page_parts.UNREADABLE as error:
                problems.append(f"{path} is not shown: {_reason(error)}")
        return made

    content = {
        "experiments": sorted(
            parts(found.experiments, page_parts.experiment_part), key=lambda e: e["order"]
        ),
        "comparisons": parts(found.comparisons, page_parts.comparison_part),
        "laws": parts(found.laws, page_parts.law_part),
        "runs": [],
    }
    with_figures = len(found.runs) <= _WITH_FIGURES
    for path in found.runs:
        try:
            part, lines = page_parts.run_part(path, kept, with_figures=with_figures)
        except (ConfigError, RunError, OSError, ValueError) as error:
            problems.append(f"{path} is not shown: {one_line(error)}")
            continue
        content["runs"].append(part)
        problems += lines
    return content, problems


def _reason(error: Exception) -> str:
    """Why a file cannot be used."""
    text = one_line(error)
    if isinstance(error, KeyError | TypeError | IndexError | AttributeError):
        return f"it has another form than this version's ({type(error).__name__}: {text})"
    return text


def _subject(settings: ReportSettings) -> str:
    """What the page is about, for its title."""
    if settings.experiment not in (None, "all"):
        return f"Experiment {settings.experiment}"
    if settings.experiment == "all":
        return "All experiments"
    return "Chosen runs" if settings.runs else "Everything measured"


def _said(
    content: dict[str, list[Part]], problems: list[str], kept: Kept, path: Path, size: int
) -> str:
    counts = [
        f"{len(parts)} {name[:-1] if len(parts) == 1 and name.endswith('s') else name}"
        for name, parts in content.items()
        if parts
    ]
    verdicts = sum(len(part["verdicts"]) for part in content["experiments"])
    counts.append(f"{verdicts} claim{'s' if verdicts != 1 else ''}")
    lines = [
        f"{', '.join(counts)}; {kept.made} drawn, {kept.used} unchanged",
        *(f"  {line}" for line in problems),
        f"{path}: {size / 1e6:.2f} MB",
    ]
    return "\n".join(lines)


def page(content: Mapping[str, list[Part]], problems: Sequence[str], subject: str) -> str:
    """The text of index.html; `problems` are lines on what could not be shown."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    def text_of(name: str) -> Markup:
        return Markup((_HERE / name).read_text(encoding="utf-8"))

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
        most=_WITH_FIGURES,
        style=text_of("style.css"),
        script=text_of("page.js"),
    )


def _claims_csv(verdicts: Sequence[Part]) -> str:
    from pandas import DataFrame

    from .figure import data_link

    names = (
        *("claim", "sentence", "source", "quantity", "published", "ours", "line", "seeds"),
        *("steps", "scale", "verdict", "note", "command"),
    )
    return data_link(DataFrame(verdicts, columns=list(names)).to_csv(index=False))


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
