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
from looplab.evaluation.run_sets import groups_in
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
    folder, form = Path(settings.folder), settings.tables.format
    rows = sorted(rows_of(folder), key=lambda row: -row["written"])
    groups = groups_in({folder: None} | folders_of(rows))
    if not rows and (form == "csv" or not groups):
        raise ConfigError("no runs yet", no_runs(folder))
    if form == "csv":
        return runs_table([row["path"] for row in rows]).to_csv(index=False).rstrip()
    parts = list[Part]()
    for group in groups:
        own = [row for row in rows if row["path"] in group.runs]
        finished = sum(row["state"] == "finished" for row in own)
        parts.append(f"{group.path}: {group.title}; {finished} of {len(group.runs)} runs finished")
        is_running = any(row["state"] == "running" for row in own)
        if finished < len(group.runs) and not is_running:
            parts.append(f"  goes on by {group.command}")
        parts += [*_table(own, [group.runs[row["path"]] for row in own]), ""]
    grouped = {path for group in groups for path in group.runs}
    alone = [row for row in rows if row["path"] not in grouped]
    alone.sort(key=lambda row: not row["settings"])  # one that cannot be read has none
    readable = [row for row in alone if row["settings"]]
    labels = labels_of_settings([row["settings"] for row in readable])
    labels = [f"{label}, seed {row['seed']}" for label, row in zip(labels, readable, strict=True)]
    labels += [""] * (len(alone) - len(labels))
    if alone:
        parts += ["runs of no grid", *_table(alone, labels), ""]
    states = Counter(row["state"] for row in rows).most_common()
    counts = ", ".join(f"{number:,} {state}" for state, number in states)
    parts.append(f"{len(rows):,} run{'s' * (len(rows) != 1)}: {counts or 'none was begun'}")
    notes = dict.fromkeys(row["remarks"] for row in rows if row["error"] is not None)
    parts += [f"* {remark}" for remark in notes if remark]
    parts.append("rm -r FOLDER deletes a run; of a grid's folder the result, but none of its runs")
    return document(parts, form)


def _table(rows: Sequence[Row], labels: Sequence[str]) -> list[Part]:
    """A table of the runs of a group, each with its label; none where there are no runs."""
    cells = []
    for row, label in zip(rows, labels, strict=True):
        error = "" if row["error"] is None else f"{row['error']:.4g}{'*' * bool(row['remarks'])}"
        left = "" if row["left"] is None else f", {duration(row['left'])} left"
        steps = f"/{row['steps']:,}" if row["steps"] else ""
        problem = f"! {row['remarks']}"  # of one that cannot be read
        cells.append(
            [
                shorten(label, _MOST, placeholder=" …") if row["settings"] else problem,
                f"{row['state']}{left}",
                f"{row['step']:,}{steps}",
                error,
                duration(max(time.time() - row["written"], 0)),
                row["path"],
            ]
        )
    return [Table(_HEAD, cells, _SPARE)] if cells else []
