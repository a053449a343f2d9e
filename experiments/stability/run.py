"""A figure of stability from its settings: measured, drawn, written, and told in a few lines.

print(stability(StabilitySettings("toy")))
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from reloop.evaluation import load_run
from reloop.evaluation.artefacts import Artefacts
from reloop.evaluation.measure import weights_digest
from reloop.evaluation.remarks import remarks, shared
from reloop.training.run_folder.sources import sources_of

from .settings import FIGURES, StabilitySettings

_TRAINING = (
    "reloop.tasks.linear",
    "reloop.training.objective",
    "reloop.training.optim.rates",
    "reloop.training.assemble",
)


class FigureModule(Protocol):
    """What the module of a figure holds."""

    def measure(self, settings: StabilitySettings) -> dict[str, Any]:
        """The figure's numbers as plain values; the same for the same settings."""

    def report(self, result: Mapping[str, Any]) -> str:
        """The numbers as text for the terminal."""

    def draw(self, result: Mapping[str, Any], folder: Path, name: str) -> list[Path]:
        """Write the pictures, `name`.png or names that begin with it, each with its CSV; their
        paths."""


def stability(settings: StabilitySettings) -> str:
    """Measure the figure that the settings name and write it into their folder, under a name with
    a hash of all that it depends on, or find it there; what to print. Raises ConfigError for
    settings that cannot be."""
    settings.check()
    figure = FIGURES[settings.figure]
    module = cast(FigureModule, import_module(f".{figure.module}", __package__))
    folder = Path(settings.folder)
    runs = [load_run(run) for run in settings.runs]
    told = shared({run.path.name: remarks(run) for run in runs})
    asked = {
        "settings": {
            name: _plain(settings, name) for name in sorted(figure.takes) if name != "jobs"
        },
        "figure": settings.figure,
        "runs": [weights_digest(run.model) for run in runs],
        "sources": sources_of(
            "reloop.models.model", *_TRAINING, f"{__package__}.{figure.module}", also=(__package__,)
        ),
    }
    kept = Artefacts(folder, "stability", name=settings.name)
    result = kept.find(asked)
    if result is None:
        result = kept.keep(asked, module.measure(settings))
    path = kept.path(asked)
    pictures = module.draw(result, folder, path.stem)
    written = [each.with_suffix(kind).name for each in pictures for kind in (".png", ".csv")]
    text = "\n".join([*told, module.report(result)])
    return f"{text}\n\n{folder}: {', '.join(written)}, {path.name}"


def _plain(settings: StabilitySettings, name: str) -> Any:
    """A init as it is used, whether it was given or is the figure's own."""
    used = {
        "init": settings.init_name,
        "loops": list(settings.all_loops),
        "rates": list(settings.all_rates),
        "seeds": len(settings.all_seeds),
        "runs": list(settings.runs),
    }
    return used.get(name, getattr(settings, name))
