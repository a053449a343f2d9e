"""Measure, draw and write a figure of stability from its settings, with a report as text.

print(stability(StabilitySettings("toy")))
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from looplab.evaluation import load_run
from looplab.evaluation.drawing import save_panels
from looplab.evaluation.kept import found, kept, shown
from looplab.evaluation.measure import weights_digest
from looplab.evaluation.remarks import remarks, shared
from looplab.evaluation.tables import document
from looplab.training.run_folder.sources import EVALUATED, sources_of

from .settings import FIGURES, StabilitySettings

_KIND = "stability"


def stability(settings: StabilitySettings) -> str:
    """Measure the figure of the settings, or find its numbers in <folder>/measured, and write them
    with its panels into <folder>/<figure>-<hash>.json and the pictures into a folder of that name,
    the hash that of all that it depends on; returns the text to print. Raises ConfigError for
    invalid settings."""
    figure = StabilityFigure(settings)
    result, folder = figure.result(), Path(settings.folder)
    panels = figure.module.panels(result)
    path = folder / f"{settings.name}-{result['key']}.json"
    content = {**result, "panels": [panel.plain() for panel in panels]}
    content |= {"remarks": figure.remarks, "figures": settings.figures.plain()}
    title = FIGURES[settings.figure].shows
    files = shown(
        path, _KIND, content,
        lambda: save_panels(path.with_suffix(""), panels, settings.figures, title, figure.remarks),
    )  # fmt: skip
    text = document([*figure.remarks, *figure.module.report(result)], settings.tables.format)
    names = [file.relative_to(folder).as_posix() for file in (*files, path)]
    return f"{text}\n\n{folder}: {', '.join(names)}"


class StabilityFigure:
    """A figure with its settings: its numbers are measured once, then found in its folder.

    `remarks` are lines on the runs that it is of.
    """

    def __init__(self, settings: StabilitySettings) -> None:
        """Raises ConfigError for invalid settings, RunError for a run that cannot be read."""
        settings.check()
        self.settings = settings
        figure = FIGURES[settings.figure]
        # Has measure(settings), plain values, the same for the same settings; report(result),
        # tables with sentences; panels(result).
        self.module = import_module(f"{__package__}.{figure.module or settings.figure}")
        runs = [load_run(run) for run in settings.runs]
        self.remarks = shared({run.path.name: remarks(run) for run in runs})
        values = {
            **vars(settings),
            "init": settings.init_name,
            "loops": settings.all_loops,
            "rates": settings.all_rates,
            "seeds": len(settings.all_seeds),
        }
        self._folder = Path(settings.folder) / "measured"
        self._request = {
            "settings": {key: values[key] for key in sorted({*figure.takes} - {"jobs"})},
            "figure": settings.figure,
            "runs": [weights_digest(run.model) for run in runs],
            "sources": sources_of(*EVALUATED, "experiments/stability"),
        }

    def stored(self) -> Any:
        """The numbers as JSON has them; None if they are not measured yet, or by other code."""
        return found(self._folder, _KIND, self._request)

    def result(self) -> Any:
        """The stored numbers, or else those measured now. Raises as the figure's `measure`."""
        return kept(
            self._folder, _KIND, self._request, lambda: (self.module.measure(self.settings), None)
        )
