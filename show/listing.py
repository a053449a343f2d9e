"""`python run.py action=list`: the runs of each grid and experiment, with what differs among them.
No torch here."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten

from looplab.conf.command import described, run_command
from looplab.conf.in_words import labels_of_settings
from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import TableSettings
from looplab.conf.setting import check_settings, setting
from looplab.evaluation.run_sets import RunSet, run_sets_in
from looplab.evaluation.runs_table import (
    Row,
    duration,
    folders_of,
    no_runs,
    rows_of,
    runs_table,
)
from looplab.show.tables import Part, Table, document

_HELP = """\
The runs in a folder, by grid and experiment, the newest first: what differs within the group,
state and time left, step, error of the last query at b loops, time since it was written, folder.
A grid that is not finished has the command that goes on with it.

  python run.py action=list
  python run.py action=list tables.format=csv > runs.csv

Settings, with their defaults:
{settings}
runs_table of Python is the same in pandas, to choose from.
"""
_HEAD = ("run", "state", "step", "error", "age", "folder")
_SPARE = ("age", "step")
_MOST = 50  # characters of what differs: a row of a pipe is one line


@dataclass(frozen=True)
class ListSettings:
    """Which folder, and how the table is printed."""

    folder: str = setting("runs", "where the runs are; also those in the folders in it")
    tables: TableSettings = TableSettings()

    def check(self) -> None:
        """Raises ConfigError for the first invalid setting."""
        check_settings("", self)


def main(words: Sequence[str]) -> int:
    """Run `action=list`; returns the exit code."""
    rest = [word for word in words if word != "action=list"]
    help_text = _HELP.format(settings=described(ListSettings))
    return run_command("run.py", ListSettings, rest, lambda: help_text, _listing)


def _listing(settings: ListSettings) -> str:
    """The groups and their runs as text. Raises ConfigError where the folder holds neither."""
    folder = Path(settings.folder)
    form = settings.tables.format
    rows = sorted(rows_of(folder), key=lambda row: -row.written)
    groups = run_sets_in({folder: None} | folders_of(rows))
    if not rows and (form == "csv" or not groups):
        raise ConfigError("no runs yet", no_runs(folder))
    if form == "csv":
        return runs_table([row.path for row in rows]).to_csv(index=False).rstrip()
    parts = list[Part]()
    alone = rows
    for group in groups:
        # A run of several groups stands in each of them.
        parts += _group(group, [row for row in rows if row.path in group.runs])
        alone = [row for row in alone if row.path not in group.runs]
    if alone:
        parts.append("runs of no grid")
        parts += _alone(alone)
    states = Counter(row.state for row in rows).most_common()
    counts = ", ".join(f"{number:,} {state}" for state, number in states) or "none was begun"
    parts.append(f"{len(rows):,} run{'s' if len(rows) != 1 else ''}: {counts}")
    notes = dict.fromkeys(row.remarks for row in rows if row.error is not None)
    parts += [f"* {remark}" for remark in notes if remark]
    parts.append("rm -r FOLDER deletes a run; of a grid's folder the result, but none of its runs")
    return document(parts, form)


def _group(group: RunSet, rows: Sequence[Row]) -> list[Part]:
    """A grid or an experiment: its title, the command that goes on with it, and its runs."""
    finished = sum(row.state == "finished" for row in rows)
    title = f"{group.path}: {group.title}; {finished} of {len(group.runs)} runs finished"
    parts: list[Part] = [title]
    is_running = any(row.state == "running" for row in rows)
    if finished < len(group.runs) and not is_running:
        parts.append(f"  goes on by {group.command}")
    if rows:
        parts.append(_table(rows, [group.runs[row.path] for row in rows]))
    parts.append("")
    return parts


def _alone(rows: Sequence[Row]) -> list[Part]:
    """The runs of no group, those last that cannot be read, which have no settings."""
    readable = [row for row in rows if row.settings]
    others = [row for row in rows if not row.settings]
    words = labels_of_settings([row.settings for row in readable])
    labels = [f"{word}, seed {row.seed}" for word, row in zip(words, readable, strict=True)]
    labels += [""] * len(others)
    return [_table(readable + others, labels), ""]


def _table(rows: Sequence[Row], labels: Sequence[str]) -> Table:
    """A table of some runs, each with its label."""
    cells = []
    for row, label in zip(rows, labels, strict=True):
        name = shorten(label, _MOST, placeholder=" …") if row.settings else f"! {row.remarks}"
        state = row.state
        if row.left is not None:
            state += f", {duration(row.left)} left"
        step = f"{row.step:,}"
        if row.steps:
            step += f"/{row.steps:,}"
        error = ""
        if row.error is not None:
            error = f"{row.error:.4g}{'*' if row.remarks else ''}"
        age = duration(max(time.time() - row.written, 0))
        cells.append([name, state, step, error, age, row.path])
    return Table(_HEAD, cells, _SPARE)
