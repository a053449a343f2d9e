"""Where the results of experiments are kept. No torch here.

folder = folder_of("runs", "fig03", "small")        # runs/experiments/fig03-small
"""

from __future__ import annotations

import re
from pathlib import Path

from reloop.conf.checksum import key_of

from .definition import SCALES

_NAME = re.compile(rf"(?P<experiment>.+)-(?:{'|'.join(SCALES)})(?:-\d+-seeds?)?(?:-on-\w+-\w+)?")


def folder_of(
    folder: str, experiment: str, scale: str, seeds: int | None = None, text: str = ""
) -> Path:
    """The folder of an experiment's result.json and pictures; one of its own for a number of seeds
    that is not the experiment's, and for a text."""
    own = f"-{seeds}-seed{'s' * (seeds > 1)}" if seeds else ""
    if text:
        place = Path(text).absolute()
        stem = re.sub(r"[^A-Za-z0-9]+", "_", place.stem)
        own += f"-on-{stem}-{key_of(str(place))[:4]}"
    return Path(folder) / "experiments" / f"{experiment}-{scale}{own}"


def experiment_of(folder: Path) -> str:
    """The experiment whose result a folder holds, by the folder's name."""
    match = _NAME.fullmatch(folder.name)
    return match["experiment"] if match else folder.name
