"""`python -m experiments.scaling_law table=runs.csv`: the worth of one recurrence."""

from __future__ import annotations

if __name__ == "__main__":  # before the imports, which take a while
    from looplab.conf.entry import begin

    begin()

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from looplab.conf.checksum import key_of
from looplab.conf.command import described, run_command
from looplab.conf.mistakes import RunError, one_line
from looplab.experiments.scaling_law.settings import ScalingSettings

if TYPE_CHECKING:
    from pandas import DataFrame

_HELP = """\
Fit L = E + A (N_once + r^phi N_rec)^-alpha + B D^-beta to the losses of models of several sizes,
loops r and amounts of data D; with intervals and a figure.

  python -m experiments.scaling_law table=runs.csv
  python -m experiments.scaling_law table=runs.csv E=0.25 clusters=r,budget
  python -m experiments.scaling_law table=minima            # the 24 minima of arXiv 2604.21106
  python -m experiments.scaling_law table=minima size=410e6 budget=1e19
  python -m experiments.scaling_law table=plain.csv changed=lanes.csv      # phi with less without
  python -m experiments.scaling_law 'table=runs/grid-*'     # finished runs of looped models

A CSV file has a row a model and the columns N_once (parameters that run once), N_rec (those that
run r times), r, D (tokens, prompts) and loss; one called budget divides the curves of the figure.

Settings, with their defaults:
{settings}
With `changed` both tables are resampled together; where its models have no r = 1 they share the
table's. In context E is known, the Bayes error. With no clusters each row is resampled by itself.
What the losses do not determine is in brackets and named, with the reason.
"""
# Of each the paper's project page prints N (without embedding and head) and the loss: the width
# with as many parameters gives N_once and N_rec, and the budget over a token's FLOPs gives D.
MINIMA = Path(__file__).with_name("minima.csv")


def read_csv(path: Path) -> DataFrame:
    """The table in a CSV file. Raises RunError, naming the file, where a column of the law is
    missing or has a text in place of a number, or a row has more fields than the header."""
    from pandas import RangeIndex
    from pandas import read_csv as read

    from looplab.experiments.scaling_law.law import COLUMNS

    try:
        table = read(path, skipinitialspace=True).dropna(how="all")
        if missing := [name for name in COLUMNS if name not in table]:
            raise RunError(f"{path} has no column {missing[0]}; it has {', '.join(table.columns)}")
        if not isinstance(table.index, RangeIndex):
            raise RunError(f"{path} has rows with more fields than its header")
        return table.astype(dict.fromkeys(COLUMNS, float)).reset_index(drop=True)
    except (OSError, ValueError) as error:
        raise RunError(f"{path} cannot be read: {one_line(error)}") from None


def _read(source: str) -> DataFrame:
    """The table of a CSV file, of the published minima, or of runs, which takes torch."""
    path = MINIMA if source == "minima" else Path(source)
    if path.is_file():
        return read_csv(path)
    from looplab.experiments.scaling_law.runs import table_of

    return table_of(source)


def main(words: list[str]) -> int:
    """Run the command; returns the exit code."""
    help_text = _HELP.format(settings=described(ScalingSettings))
    return run_command("experiments.scaling_law", ScalingSettings, words, lambda: help_text, _fit)


def _fit(settings: ScalingSettings) -> str:
    """Fit the table; returns the text to print."""
    from looplab.experiments.scaling_law.law import difference, fitted
    from looplab.experiments.scaling_law.minima import losses_at_equal_flops, vertices
    from looplab.experiments.scaling_law.report import text_of, text_of_difference, write
    from looplab.experiments.scaling_law.worth import best_sizes, equivalents
    from looplab.show.panel import file_name
    from looplab.show.tables import document

    table = _read(settings.table)
    tables = [table.to_dict("list")]
    fixed = {} if settings.E is None else {"E": settings.E}
    bootstrap = (settings.clusters, settings.resamples, settings.seed)
    change = None
    if settings.changed:
        changed = _read(settings.changed)
        tables.append(changed.to_dict("list"))
        change = difference(table, changed, fixed, *bootstrap)
    result = change.baseline if change else fitted(table, fixed, *bootstrap)
    given = {}
    for key in ("table", "changed", "E", "clusters", "resamples", "seed", "size", "budget"):
        value = getattr(settings, key)
        if value not in ("", ()) and (value is not None or key == "E"):  # names of folders have E
            given[key] = value
    name = file_name(Path(settings.table).stem)
    folder = Path(settings.folder) / f"scaling_law-{name}-{key_of([*tables, given], 8)}"
    parts = text_of(result)
    if "budget" in table:
        parts += vertices(table)
    if change:
        parts.append("")
        parts += text_of(change.changed)
        parts.append(text_of_difference(change))
        if "budget" in table and "budget" in change.changed.table:
            parts += losses_at_equal_flops(table, change.changed.table)
    if settings.size is not None:
        parts += equivalents(result, settings.size)
    if settings.budget is not None:
        parts += best_sizes(result, settings.budget)
    write(result, folder, given, settings.figures, parts, change)
    text = document(parts, settings.tables.format)
    return f"{text}\n\n{folder}: scaling_law.json, page.html, figures/"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
