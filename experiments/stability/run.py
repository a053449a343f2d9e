"""Measure, draw and write a figure of stability from its settings, with a report as text.

print(stability(StabilitySettings("toy")))
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from reloop.evaluation import load_run
from reloop.evaluation.artefacts import Artefacts
from reloop.evaluation.figures import Pictures, drawn_once
from reloop.evaluation.measure import weights_digest
from reloop.evaluation.remarks import remarks, shared
from reloop.evaluation.tables import Part, document
from reloop.training.run_folder.sources import sources_of

from .settings import FIGURES, StabilitySettings

_TRAINING = (
    "reloop.tasks.linear",
    "reloop.training.objective",
    "reloop.training.optim.rates",
    "reloop.training.assemble",
    "reloop.training.run_folder.metrics",
)


class FigureModule(Protocol):
    """The functions of a figure's module."""

    def measure(self, settings: StabilitySettings) -> Mapping[str, object]:
        """The figure's numbers, a TypedDict of plain values; the same for the same settings."""

    def report(self, result: Any) -> list[Part]:
        """The numbers as tables with sentences."""

    def draw(self, result: Any, pictures: Pictures, name: str) -> None:
        """Save the pictures, called `name` or names that begin with it."""


def stability(settings: StabilitySettings) -> str:
    """Measure the figure of the settings and write it into their folder, under a name with a hash
    of all that it depends on, or find it there; returns the text to print. Raises ConfigError for
    invalid settings."""
    settings.check()
    figure = FIGURES[settings.figure]
    name = f"{__package__}.{figure.module or settings.figure}"
    module = cast(FigureModule, import_module(name))
    folder = Path(settings.folder)
    runs = [load_run(run) for run in settings.runs]
    remark_lines = shared({run.path.name: remarks(run) for run in runs})
    request = {
        "settings": {key: _plain(settings, key) for key in sorted(figure.takes) if key != "jobs"},
        "figure": settings.figure,
        "runs": [weights_digest(run.model) for run in runs],
        "sources": sources_of("reloop.models.model", *_TRAINING, name, also=(__package__,)),
    }
    artefacts = Artefacts(folder, "stability", name=settings.name)
    result = artefacts.find(request)
    if result is None:
        result = artefacts.keep(request, module.measure(settings))
    path = artefacts.path(request)

    def draw(pictures: Pictures) -> None:
        module.draw(result, pictures, path.stem)

    record = folder / f"drawn-{path.name}"
    file_names = [file.name for file in drawn_once(record, path.stem, settings.figures, draw)]
    text = document([*remark_lines, *module.report(result)], settings.tables.format)
    return f"{text}\n\n{folder}: {', '.join(file_names)}, {path.name}"


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
