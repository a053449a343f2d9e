"""`python -m experiments.iso_depth`: the worth of one recurrence on linear functions."""

from __future__ import annotations

if __name__ == "__main__":  # before the imports, which take a while
    from looplab.conf.entry import begin

    begin()

import sys

from looplab.conf.command import described, run_command
from looplab.experiments.iso_depth.settings import IsoDepthSettings
from looplab.experiments.plateau import LEAVES

_STOP_MESSAGE = "stopped, with every training saved; the same command resumes"
_HELP = """\
Train a grid of looped models of one effective depth and fit the law of what one recurrence is worth
to their errors: L = E + A (N_once + r^phi N_rec)^-alpha + B D^-beta, D in prompts.

  python -m experiments.iso_depth
  python -m experiments.iso_depth 'widths=[16,32]' 'steps=[500,1000]' folder=PATH

Each model has a layer, depth / r layers that run r times, and a layer, as in arXiv 2604.21106:
the prompt is concatenated and projected anew at each loop (at r = 1 there is no projection), the
stream normed in the loop. It is trained on linear functions without noise, on the last loop's
error, through all loops, at one rate, which falls to zero at each run's last step.

The loss is the error over the variance of y, averaged over 0 to points - 1 examples; predicting 0
costs 1. E is fixed at the error of the best possible predictor on the same prompts. A run whose
loss stays above E + {leaves:g} (Z - E), where Z is that of predicting 0, has not left the plateau:
it is counted, for each r, and left out of the fit. To leave out by loss selects on the outcome: the
worst of the short trainings are missing, which flattens the fit in D (beta tends to come out low)
and leaves phi less certain. All runs see the same prompts: no interval covers another set of them.

Settings, with their defaults:
{settings}
The same command resumes. Exit code: 0 done, 1 a run failed or no law can be fitted, 2 a mistake in
the command, 130 and 143 stopped by a signal.
"""


def main(words: list[str]) -> int:
    """Run the command; returns the exit code."""
    return run_command(
        "experiments.iso_depth", IsoDepthSettings, words, _help, _measure, _STOP_MESSAGE
    )


def _help() -> str:
    return _HELP.format(settings=described(IsoDepthSettings), leaves=LEAVES)


def _measure(settings: IsoDepthSettings) -> str:
    """Train what is not trained yet, fit; returns the text to print."""
    from looplab.experiments.iso_depth.run import iso_depth

    return iso_depth(settings)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
