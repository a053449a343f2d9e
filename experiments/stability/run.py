"""Measure, draw and write a figure of stability from its settings, with a report as text.

print(stability(StabilitySettings("toy")))
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from looplab.evaluation import load_run
from looplab.evaluation.figures import Pictures, drawn_once
from looplab.evaluation.kept import Artefacts
from looplab.evaluation.measure import weights_digest
from looplab.evaluation.remarks import remarks, shared
from looplab.evaluation.tables import document
from looplab.training.run_folder.sources import EVALUATED, sources_of

from .settings import FIGURES, StabilitySettings


def stability(settings: StabilitySettings) -> str:
    """Measure the figure of the settings and write it into their folder, under a name with a hash
    of all that it depends on, or find it there; returns the text to print. Raises ConfigError for
    invalid settings."""
    figure = StabilityFigure(settings)
    result = figure.result()
    folder = figure.path.parent
    name = figure.path.stem

    def draw(pictures: Pictures) -> None:
        figure.module.draw(result, pictures, name)

    record = folder / f"drawn-{figure.path.name}"
    file_names = [file.name for file in drawn_once(record, name, settings.figures, draw)]
    text = document([*figure.remarks, *figure.module.report(result)], settings.tables.format)
    return f"{text}\n\n{folder}: {', '.join(file_names)}, {figure.path.name}"


class StabilityFigure:
    """A figure with its settings: its numbers are measured once, then found in its folder.

    `remarks` are lines on the runs that it is of, `path` is that of its JSON.
    """

    def __init__(self, settings: StabilitySettings) -> None:
        """Raises ConfigError for invalid settings, RunError for a run that cannot be read."""
        settings.check()
        self.settings = settings
        figure = FIGURES[settings.figure]
        name = f"{__package__}.{figure.module or settings.figure}"
        # Has measure(settings), a TypedDict of plain values, the same for the same settings;
        # report(result), tables with sentences; draw(result, pictures, name).
        self.module = import_module(name)
        runs = [load_run(run) for run in settings.runs]
        self.remarks = shared({run.path.name: remarks(run) for run in runs})
        keys = sorted(key for key in figure.takes if key != "jobs")
        self._request = {
            "settings": {key: _plain(settings, key) for key in keys},
            "figure": settings.figure,
            "runs": [weights_digest(run.model) for run in runs],
            "sources": sources_of(*EVALUATED, "experiments/stability"),
        }
        self._artefacts = Artefacts(Path(settings.folder), "stability", name=settings.name)
        self.path = self._artefacts.path(self._request)

    def stored(self) -> Any:
        """The numbers as JSON has them; None if they are not measured yet, or by other code."""
        return self._artefacts.find(self._request)

    def result(self) -> Any:
        """The stored numbers, or else those measured now. Raises as the figure's `measure`."""
        result = self.stored()
        if result is None:
            result = self._artefacts.keep(self._request, self.module.measure(self.settings))
        return result


def _plain(settings: StabilitySettings, name: str) -> Any:
    """The value of a setting, with null replaced by the figure's own."""
    values = {
        "init": settings.init_name,
        "loops": list(settings.all_loops),
        "rates": list(settings.all_rates),
        "seeds": len(settings.all_seeds),
        "runs": list(settings.runs),
    }
    return values.get(name, getattr(settings, name))
