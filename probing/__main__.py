"""`python -m probing run=runs/NAME`: probes of the loops of a trained model."""

from __future__ import annotations

if __name__ == "__main__":  # before the imports, which take a while
    from looplab.conf.entry import begin

    begin()

import sys

from looplab.conf.command import described, run_command
from looplab.probing.settings import ProbingSettings

_HELP = """\
Train probes on every loop (or layer) of a trained run and every context length; test, draw.

  python -m probing run=runs/NAME
  python -m probing run=runs/NAME targets=[gradient,ridge,weights] seeds=3
  python -m probing run=runs/NAME protocol=reference steps=10000 batch_size=1280

Settings, with their defaults:
{settings}
Targets: {targets}
"""


def main(words: list[str]) -> int:
    """Run the command; returns the exit code."""

    def help_text() -> str:
        from looplab.probing.targets import TARGETS

        return _HELP.format(settings=described(ProbingSettings), targets=", ".join(TARGETS))

    stop_message = "stopped; the same command resumes"
    return run_command("probing", ProbingSettings, words, help_text, _probe, stop_message)


def _probe(settings: ProbingSettings) -> str:
    """Probe the run; returns the text to print."""
    from looplab.evaluation import load_run
    from looplab.probing.probe import probe
    from looplab.probing.report import table

    run = load_run(settings.run)
    text = table(probe(run, settings), settings.tables.format)
    return f"{text}\n\n{run.path}: probing.json, probing/figures/"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
