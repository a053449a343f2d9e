"""How results are shown: the settings of pictures and of printed tables. No torch here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..mistakes import ConfigError
from ..setting import setting

PictureFormat = Literal["png", "pdf", "svg"]
TableFormat = Literal["text", "csv", "markdown", "latex"]


@dataclass(frozen=True)
class FigureSettings:
    """The files, the width and the title of every picture."""

    format: tuple[PictureFormat, ...] = setting(
        ("png",), "files of each picture, one or several: png, pdf, svg"
    )
    width: Literal["column", "page"] | None = setting(
        None, "3.25 or 6.75 inches, with smaller letters; null: as wide as a screen shows well"
    )
    title: bool = setting(True, "whether pictures have a title; remarks on a run are always shown")

    def __post_init__(self) -> None:
        """Raises ConfigError for no format, and for one that is named twice."""
        if not self.format:
            raise ConfigError("figures.format", "must hold at least one of png, pdf, svg")
        if len(set(self.format)) < len(self.format):
            raise ConfigError("figures.format", f"names one twice: {', '.join(self.format)}")

    def plain(self) -> dict[str, object]:
        """The settings as JSON has them, to recognise pictures that were drawn with them."""
        return {"format": list(self.format), "width": self.width, "title": self.title}


@dataclass(frozen=True)
class TableSettings:
    """The format of printed tables."""

    format: TableFormat = setting(
        "text", "of printed tables; what stands around them is a comment in csv and latex"
    )
