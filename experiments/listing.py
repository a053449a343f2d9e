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
from looplab.evaluation.tables import Part, Table, document

from .groups import Group, groups_in
from .runs_table import NOT_NAMED, Row, duration, no_runs, rows_of, runs_table

_HELP = """\
The runs in a folder, by grid and experiment, the newest first: what differs within the group,
state, step, time left, the last training loss or, once it is evaluated, the error of the last
query at b loops, time since it was written, and its folder. Of a grid that is not finished the
command follows that goes on with it.

  python run.py action=list
  python run.py action=list tables.format=csv > runs.csv

Settings, with their defaults:
{settings}
runs_table of Python is the same in pandas, to choose from.
"""
_HEAD = ("run", "state", "step", "left", "loss", "error", "age", "folder")
_SPARE = ("age", "left", "loss", "step")
_MOST = 50  # characters of what differs: a row of a pipe is one line
_ALONE = Group("", "runs of no grid", "", {})


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
    """The groups as text, that of the newest run first. Raises ConfigError where the folder holds
    no run and no grid that was begun."""
    folder, form = Path(settings.folder), settings.tables.format
    rows = sorted(rows_of(folder), key=lambda row: -row["written"])
    groups = {group.name: group for group in groups_in(folder)}
    if not rows and not groups:
        raise ConfigError("no runs yet", no_runs(folder))
    if form == "csv" and rows:
        return runs_table([row["path"] for row in rows]).to_csv(index=False).rstrip()
    members: dict[str, list[Row]] = {}
    for row in rows:
        name = row["groups"][0] if row["groups"] else ""
        members.setdefault(name, []).append(row)
    parts = list[Part]()
    for name in [*members, *(name for name in groups if name not in members)]:
        parts += _section(groups.get(name, _ALONE), members.get(name, []), rows, folder)
    states = Counter(row["state"] for row in rows).most_common()
    counts = ", ".join(f"{number:,} {state}" for state, number in states)
    parts.append(f"{_runs(len(rows))}{': ' * bool(rows)}{counts}")
    notes = dict.fromkeys(row["remarks"] for row in rows if row["error"] is not None)
    parts += [f"* {remark}" for remark in notes if remark]
    parts += [f"! {row['path']}: {row['remarks']}" for row in rows if not row["settings"]]
    parts.append(f"rm -r {folder}/FOLDER deletes a run, or the result of a grid but not its runs")
    return document(parts, form)


def _section(group: Group, own: Sequence[Row], rows: Sequence[Row], folder: Path) -> list[Part]:
    """A group: its title and how far it is, the command that goes on with it, and the table of its
    `own` rows, which are those that no earlier group has."""
    if group is _ALONE:
        return [f"{group.title}: {len(own):,}", _table(own, _labels(own), folder), ""]
    done = {row["name"] for row in rows if row["state"] == "finished"}.intersection(group.runs)
    title = f"{group.name}: {group.title}; {len(done)} of {_runs(len(group.runs))} finished"
    if len(own) < len(done):
        title += f", {len(done) - len(own)} of them in another group"
    parts = list[Part]([title])
    if len(done) < len(group.runs):
        parts.append(f"  goes on by {group.command}")
    if own:
        parts.append(_table(own, [group.runs[row["name"]] for row in own], folder))
    return [*parts, ""]


def _labels(rows: Sequence[Row]) -> list[str]:
    """For each of some runs of no grid what differs among them; of one that cannot be read "!"."""
    readable = [row["settings"] for row in rows if row["settings"]]
    labels = iter(labels_of_settings(readable, NOT_NAMED))
    return [next(labels) if row["settings"] else "!" for row in rows]


def _runs(number: int) -> str:
    return f"{number:,} run{'s' * (number != 1)}"


def _table(rows: Sequence[Row], labels: Sequence[str], folder: Path) -> Table:
    """The rows, without the columns that have nothing to say in any of them."""
    cells = []
    for row, label in zip(rows, labels, strict=True):
        place = str(Path(row["path"]).relative_to(folder))
        cells.append([shorten(label, _MOST, placeholder=" …"), *_cells(row), place])
    kept = [number for number in range(len(_HEAD)) if any(line[number] for line in cells)]
    head = [_HEAD[number] for number in kept]
    return Table(head, [[line[number] for number in kept] for line in cells], _SPARE)


def _cells(row: Row) -> list[str]:
    """A row's state, step, time left, loss or error, and age."""
    step = f"{row['step']:,}/{row['steps']:,}" if row["steps"] else f"{row['step']:,}"
    loss = error = ""
    if row["error"] is not None:
        error = f"{row['error']:.4g}{'*' * bool(row['remarks'])}"
    elif row["loss"] is not None:
        loss = f"{row['loss']:.4g}"
    age = duration(max(time.time() - row["written"], 0))
    return [row["state"], step, duration(row["left"]), loss, error, age]
