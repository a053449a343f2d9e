"""`python -m probing run=runs/NAME`: probes of the loops of a trained model."""

if __name__ == "__main__":  # before the imports, which take a while
    from looplab.conf.entry import begin

    begin()

import sys

from looplab.conf.checks.folders import is_writable
from looplab.conf.command import described, run_command
from looplab.probing.settings import ProbingSettings

_HELP = """\
Train probes on every loop (or layer) of a trained run and every context length; test, draw.

  python -m probing run=runs/NAME
  python -m probing run=runs/NAME targets=gradient,ridge,weights seeds=3
  python -m probing run=runs/NAME protocol=reference steps=10000 batch_size=1280

Targets: gradient (XᵀY), least_squares, ridge, residual, support, weights, and your own.
Settings, with their defaults:
{settings}
"""


def main(words: list[str]) -> int:
    """Run the command; returns the exit code."""

    def measure(settings: ProbingSettings) -> str:
        from looplab.evaluation.load import load_run
        from looplab.probing.probe import probe, table

        run = load_run(settings.run)
        text = table(probe(run, settings), settings.tables.format)
        kept = f"\n\n{run.path}: probing.json, probing/figures/"
        return f"{text}{kept}" if is_writable(run.path) else text

    help_text = _HELP.format(settings=described(ProbingSettings))
    stop_message = "stopped; the same command resumes"
    return run_command("probing", ProbingSettings, words, lambda: help_text, measure, stop_message)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
