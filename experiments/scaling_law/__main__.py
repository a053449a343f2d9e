"""`python -m experiments.scaling_law table=runs.csv`: the worth of one recurrence."""

from __future__ import annotations

if __name__ == "__main__":  # before the imports, which take a while
    from looplab.conf.entry import begin

    begin()

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from looplab.conf.checksum import key_of
from looplab.conf.command import described, run_command
from looplab.conf.mistakes import RunError, one_line
from looplab.experiments.scaling_law.settings import ScalingSettings
from looplab.training.run_folder.status import named_runs

if TYPE_CHECKING:
    from pandas import DataFrame

_HELP = """\
Fit L = E + A (N_once + r^phi N_rec)^-alpha + B D^-beta to the losses of models of several sizes,
loops r and amounts of data D; intervals, the fits with phi = 0 and phi = 1 beside, a figure.

  python -m experiments.scaling_law table=runs.csv
  python -m experiments.scaling_law table=runs.csv E=0.25 'clusters=[r,budget]'
  python -m experiments.scaling_law 'runs=[runs/A,runs/linear-*]'
  python -m experiments.scaling_law table=minima            # the 24 minima of arXiv 2604.21106

A CSV file has a row a model and the columns N_once (parameters that run once), N_rec (those that
run r times), r, D (tokens, prompts) and loss; one called budget divides the curves of the figure.

A finished and evaluated run of a looped model is a row: N_rec counts its looped layers; N_once
prelude, coda, injection and norms; r is loops.b, D the prompts it was trained on, and loss the
error at b loops over the task's divisor, its mean over all numbers of examples.

Settings, with their defaults:
{settings}
In context E is known, the Bayes error. With no clusters each row is resampled by itself. What the
losses do not determine is in brackets and named, with the reason.
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


def read_runs(paths: Sequence[Path]) -> tuple[DataFrame, list[str]]:
    """The table of the finished and evaluated runs of looped models among these folders, and
    messages: which others have no row, and the remarks on those that have one. The loss is the
    error at b loops over the task's divisor, its mean over all numbers of examples.

    Raises RunError if no run has a row, or if the errors are on different prompts.
    """
    from pandas import DataFrame

    from looplab.evaluation.load import load_model
    from looplab.evaluation.remarks import shared
    from looplab.experiments.runs_table import rows_of
    from looplab.experiments.scaling_law.law import row_of

    rows, messages, remarks, prompts = list[Any](), list[str](), dict[str, list[str]](), list[Any]()
    for found in rows_of(paths):
        name, evaluation, lines = found["name"], found["evaluation"], found["remarks"]
        facts = f"{found['model']}, {found['state']} at step {found['step']}"
        facts += "" if evaluation else ", not evaluated"
        # The errors of a run whose curriculum has not reached its end are not those of its sizes.
        unfinished = found["state"] != "finished" or "curriculum unfinished" in lines
        if found["model"] == "standard" or unfinished or not evaluation:
            messages.append(f"left out: {found['path']}: {'; '.join(filter(None, [facts, lines]))}")
            continue
        losses = np.array(evaluation["by_examples"]["model_at_b"]["mean"], np.float64)
        rows.append({**row_of(load_model(found["path"]), float(losses.mean())), "run": name})
        remarks[name] = [lines] if lines else []
        task = {key: each for key, each in found["settings"].items() if key.startswith("task.")}
        task |= {"task.distinct_prompts": 0, "task.distinct_functions": 0}  # of training alone
        prompts.append([task, evaluation["prompts"], evaluation["seed"]])
        if prompts[-1] != prompts[0]:
            both = f"{rows[0]['run']} and {name} are of different tasks, or were evaluated on"
            raise RunError(f"{both} different prompts: their errors do not belong into one table")
    if not rows:
        raise RunError("; ".join(["no run has a row for the table", *messages]))
    return DataFrame(rows), messages + shared(remarks)


def main(words: list[str]) -> int:
    """Run the command; returns the exit code."""
    help_text = _HELP.format(settings=described(ScalingSettings))
    return run_command("experiments.scaling_law", ScalingSettings, words, lambda: help_text, _fit)


def _fit(settings: ScalingSettings) -> str:
    """Fit the table, or that of the runs, of which it prints those without a row; returns the text
    to print."""
    from looplab.evaluation.tables import document
    from looplab.experiments.scaling_law.law import fitted
    from looplab.experiments.scaling_law.report import text_of, write

    if settings.runs:
        name = "runs"
        table, messages = read_runs(named_runs(settings.runs))
        for message in messages:
            print(message, flush=True)
    else:
        path = MINIMA if settings.table == "minima" else Path(settings.table)
        name, table = path.stem, read_csv(path)
    fixed = {} if settings.E is None else {"E": settings.E}
    result = fitted(table, fixed, settings.clusters, settings.resamples, settings.seed)
    names = ("table", "runs", "E", "clusters", "resamples", "seed")
    given = {each: value for each in names if (value := getattr(settings, each)) not in ("", ())}
    folder = (
        Path(settings.folder) / f"scaling_law-{name}-{key_of([table.to_dict('list'), given], 8)}"
    )
    write(result, folder, given, settings.figures)
    text = document(text_of(result), settings.tables.format)
    return f"{text}\n\n{folder}: scaling_law.json, figures/"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
