"""The files that a task's prompts are made of, as a run has to know them.

task.data.identity()          # {"text": "9f2c…", …}: digests, by what they are of
"""

from pathlib import Path
from typing import Any

# Of the kept files in an export, where `transformers` has files of their names.
EXPORT_PREFIX = "looplab-"


class Data:
    """The files of a task that reads none; a task that reads some has a subclass as its `data`."""

    @property
    def vocabulary(self) -> int:
        """The number of tokens where prompts are tokens of a text; 0 where they are pairs."""
        return 0

    def paths(self) -> dict[str, str]:
        """The paths among the task's settings that it reads data from, by setting."""
        return {}

    def identity(self) -> dict[str, str]:
        """Everything that prompts depend on beside settings and code: digests of files, by what
        they are of."""
        return {}

    def check(self, points: int = 2) -> None:
        """Raises RunError or ConfigError, with what to do, where the files are absent, damaged or
        too few for prompts of `points`."""

    def describe(self, points: int = 2) -> str:
        """A line on the data of prompts of `points`."""
        return ""

    def is_on_host(self) -> bool:
        """Says whether prompts are gathered on the host, wherever the model is."""
        return False

    def kept(self) -> dict[str, str]:
        """The files, by name, that a run keeps in its folder: its model is of no use without."""
        return {}

    def settings_in(self, folder: Path) -> dict[str, Any]:
        """The settings of the task that name the files which a run keeps in this folder."""
        return {}

    def changed(self, folder: Path) -> list[str]:
        """The settings that name files which are others today than those that a run keeps in this
        folder; a file that is no longer there is none of them."""
        return []
