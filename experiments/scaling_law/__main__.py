"""`python -m experiments.scaling_law table=runs.csv`: the worth of one recurrence."""

from __future__ import annotations

if __name__ == "__main__":  # before the imports, which take a while
    from looplab.conf.entry import begin

    begin()

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from looplab.conf.command import described, run_command
from looplab.experiments.scaling_law.settings import PUBLISHED, ScalingSettings, run_folders

if TYPE_CHECKING:
    from looplab.experiments.scaling_law.table import ScalingTable

_HELP = """\
Fit L = E + A (N_once + r^phi N_rec)^-alpha + B D^-beta to the losses of models of several sizes,
loops r and amounts of data D; intervals, the fits with phi = 0 and phi = 1 beside, a figure.

  python -m experiments.scaling_law table=runs.csv
  python -m experiments.scaling_law table=runs.csv E=0.25 'clusters=[r,budget]'
  python -m experiments.scaling_law 'runs=[runs/A,runs/B]'  # run folders, or folders that hold runs
  python -m experiments.scaling_law table={published}       # the 24 minima of arXiv 2604.21106

A CSV file has a row a model and the columns N_once (parameters that run once), N_rec (those that
run r times), r, D (tokens, prompts) and loss; other columns are allowed, and one called budget
divides the curves of the figure.

A finished run of a looped model is a row: N_rec counts its looped layers; N_once prelude, coda,
injection and norms, without read-in, read-out and positions; r is loops.b, D the prompts it was
trained on, and loss the error at b loops, as evaluation.json has it (over the task's divisor), its
mean over all numbers of examples. A run that is not evaluated yet is evaluated.

Settings, with their defaults:
{settings}
In context E is known, the Bayes error. With no clusters each row is resampled by itself.

Intervals are 90 %: of fits to resampled clusters of rows. What the losses do not determine is in
brackets and named, with the reason: too few values of N, D or r (two of D do not determine E, B and
beta together), an interval without an end, an E that may as well be 0.
"""


def main(words: list[str]) -> int:
    """Run the command; returns the exit code."""
    return run_command("experiments.scaling_law", ScalingSettings, words, _help, _measure)


def _help() -> str:
    return _HELP.format(published=PUBLISHED, settings=described(ScalingSettings))


def _measure(settings: ScalingSettings) -> str:
    """Fit the table; returns the text to print."""
    from looplab.conf.checksum import key_of
    from looplab.evaluation.tables import document
    from looplab.experiments.scaling_law.report import fitted, report, write

    table, name = _table(settings)
    fixed = {} if settings.E is None else {"E": settings.E}
    result = fitted(table, fixed, settings.clusters, settings.resamples, settings.seed)
    key = key_of([result.request(), dict(result.table.labels)], 8)
    folder = Path(settings.folder) / f"scaling_law-{name}-{key}"
    names = ("table", "runs", "E", "clusters", "resamples", "seed")
    given = {each: value for each in names if (value := getattr(settings, each)) not in ("", ())}
    write(result, folder, given, settings.figures)
    text = document(report(result), settings.tables.format)
    return f"{text}\n\n{folder}: scaling_law.json, figures/"


def _table(settings: ScalingSettings) -> tuple[ScalingTable, str]:
    """The table to fit and its name; prints which runs have no row."""
    if settings.runs:
        from looplab.experiments.scaling_law.runs import read_runs

        table, messages = read_runs(run_folders(settings.runs))
        for message in messages:
            print(message, flush=True)
        return table, "runs"
    from looplab.experiments.scaling_law.published import minima
    from looplab.experiments.scaling_law.table import read_csv

    table = minima() if settings.table == PUBLISHED else read_csv(Path(settings.table))
    return table, Path(settings.table).stem


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
