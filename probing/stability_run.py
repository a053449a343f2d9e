"""A figure of stability from its settings: measured, drawn, written, and told in a few lines.

print(stability(StabilitySettings("toy")))
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from training.files import write_json

from .stability_settings import FIGURES, StabilitySettings


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
    """Measure the figure that the settings name and write it into their folder; what to print.
    Raises ConfigError for settings that cannot be."""
    settings.check()
    module = cast(FigureModule, import_module(f".{FIGURES[settings.figure].module}", __package__))
    result = module.measure(settings)
    folder = Path(settings.folder)
    pictures = module.draw(result, folder, settings.name)
    write_json(folder / f"{settings.name}.json", result)
    written = [path.with_suffix(kind).name for path in pictures for kind in (".png", ".csv")]
    return f"{module.report(result)}\n\n{folder}: {', '.join(written)}, {settings.name}.json"
