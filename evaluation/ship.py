"""`python -m evaluation.ship run=runs/NAME name=linear`: make a run a model that ships."""

if __name__ == "__main__":  # before the imports, which take a while
    from looplab.conf.entry import begin

    begin()

import re
import sys
from dataclasses import MISSING, dataclass
from pathlib import Path

from looplab.conf import saved
from looplab.conf.command import run_command
from looplab.conf.mistakes import ConfigError
from looplab.conf.setting import setting

_HELP = """\
Make a finished run one of the models that ship with the project; shipped/NAME names it in place of
a run folder.

  python -m evaluation.ship run=runs/NAME name=linear

It is exported to models/checkpoints/NAME (run.py action=export).
"""


@dataclass(frozen=True)
class ShipSettings:
    """The run, and the name to ship it under."""

    run: str = setting(MISSING, "the finished run")
    name: str = setting(MISSING, "what it is called: shipped/<name>")

    def check(self) -> None:
        """Raises ConfigError for the first invalid setting."""
        if not re.fullmatch(r"[a-z0-9_-]+", self.name):
            raise ConfigError("name", f"must be of a-z, 0-9, _ and -, got {self.name!r}")
        saved.read_config(Path(self.run))


def ship_run(settings: ShipSettings) -> str:
    """Export the run to models/checkpoints/<name> and return a line on it. ConfigError, before
    anything is written, for a run that is unfinished."""
    from looplab.evaluation.export.export import export
    from looplab.evaluation.load import load_run

    target = export(load_run(settings.run), saved.SHELF / settings.name, replace=True)
    total = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    return f"{target}: {total:,} bytes; use it as shipped/{settings.name}"


def main(words: list[str]) -> int:
    """Run the command given by `words`; returns the exit code."""
    return run_command("evaluation.ship", ShipSettings, words, lambda: _HELP, ship_run)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
