"""`python -m probing.dynamics run=runs/NAME`: the dynamics of a model's state from loop to loop."""

if __name__ == "__main__":  # before the imports, which take a while
    from looplab.conf.entry import begin

    begin()

import sys

from looplab.conf.checks.folders import is_writable
from looplab.conf.command import described, run_command
from looplab.conf.saved import unpacked
from looplab.probing.settings import DynamicsSettings

_HELP = """\
Follow the states of a run's newest checkpoint far beyond b, or through its layers; measure, draw.

  python -m probing.dynamics run=runs/NAME
  python -m probing.dynamics run=runs/NAME loops=500 prompts=256

By loop: the state's norm, its change, the fixed-point residual, and the cosines between all
increments; at the last loop how much its Jacobian stretches and how fast it contracts.
Any run will do: trained, unfinished, imported, or fresh (`python run.py ... training.steps=0`).

Settings, with their defaults:
{settings}
"""


def main(words: list[str]) -> int:
    """Run the command; returns the exit code."""

    def measure(settings: DynamicsSettings) -> str:
        from looplab.probing.dynamics.measure import dynamics, report

        text = report(dynamics(settings), settings.tables.format)
        path = unpacked(settings.run)
        kept = f"\n\n{path}: dynamics.json, probing/dynamics/"
        return f"{text}{kept}" if is_writable(path) else text

    help_text = _HELP.format(settings=described(DynamicsSettings))
    return run_command("probing.dynamics", DynamicsSettings, words, lambda: help_text, measure)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
