"""Gather what was measured and write the page.

print(write_report(ReportSettings(folder="runs", output="report")))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reloop.conf.mistakes import ConfigError, RunError, one_line

from .folders import Found, find
from .settings import ReportSettings

if TYPE_CHECKING:
    from .kept import Kept

_ALL_FIGURES = 20  # runs, at most, that are shown with all their figures
Part = dict[str, Any]


def write_report(settings: ReportSettings) -> str:
    """Write <output>/index.html of what the settings ask for; returns the text to print. A file
    that cannot be used is named on the page and in the text. Raises ConfigError for invalid
    settings, and where there is nothing to show."""
    settings.check()
    found = find(settings)
    # Imported here, so that mistakes need not wait for torch.
    from reloop.training.run_folder.files import write_bytes

    from .kept import Kept
    from .page import page

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
    from .result_parts import (
        UNREADABLE,
        comparison_part,
        experiment_part,
        law_part,
        stability_part,
    )
    from .run_part import run_part

    problems: list[str] = []

    def parts(paths: Sequence[Path], make: Callable[[Path, Kept], Part]) -> list[Part]:
        made = []
        for path in paths:
            try:
                made.append(make(path, kept))
            except UNREADABLE as error:
                problems.append(f"{path} is not shown: {_reason(error)}")
        return made

    content = {
        "experiments": sorted(parts(found.experiments, experiment_part), key=lambda e: e["order"]),
        "comparisons": parts(found.comparisons, comparison_part),
        "laws": parts(found.laws, law_part),
        "stability": parts(found.stability, stability_part),
        "runs": [],
    }
    all_figures = len(found.runs) <= _ALL_FIGURES
    for path in found.runs:
        try:
            part, lines = run_part(path, kept, all_figures=all_figures)
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
