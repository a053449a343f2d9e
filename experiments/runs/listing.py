"""`action=list`: a table of runs, shown row by row while further files are read. No torch here."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from reloop.conf.mistakes import ConfigError, nearest, nearest_key
from reloop.evaluation.tables import Part, Table, document
from reloop.training.run_folder.status import runs_in

from .row import Row, rows_of
from .settings import ListSettings

_HEAD = ("name", "task", "model", "state", "step", "left", "loss", "error", "age")
_WIDTHS = {"left": 6, "loss": 8, "error": 8}  # of columns whose values are not read at first
_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
# In the name, in columns of their own, or of no meaning for a run's numbers.
_NOT_SHOWN = (
    *("schema_version", "task.name", "model.family", "model.connectivity", "seed", "folder"),
    *("device", "backend", "plugins", "wandb", "tensorboard", "name", "scale", "recipe"),
    *("evaluation.", "figures.", "tables.", "training.checkpoint_every", "training.log_every"),
)
_STATES = ("new", "running", "interrupted", "stopped", "failed", "finished", "unknown")


def listing(settings: ListSettings, filters: Mapping[str, str]) -> None:
    """Print the table. Raises ConfigError where the folder holds no run, and as `chosen`."""
    paths = runs_in(Path(settings.folder))
    if not paths:
        raise ConfigError("folder", f"holds no run: {settings.folder}")
    everything = rows_of(paths)
    rows = sorted_rows(chosen(everything, filters), settings.sort)
    if not rows:
        words = " ".join(f"{key}={value}" for key, value in filters.items())
        print(f"none of {len(everything)} runs fits {words}")
        return
    if settings.tables.format == "csv":
        print(document([_numbers(rows)], "csv"))
        return
    differences = differing(rows)
    if settings.tables.format == "text":
        for line in _lines(rows, differences):
            print(line, flush=True)
        print("\n".join(["", _count(rows), *_notes(rows)]))
    else:
        cells = [[*_cells(row), words] for row, words in zip(rows, differences, strict=True)]
        parts: list[Part] = [Table([*_HEAD, "differs in"], cells), *_notes(rows)]
        print(document(parts, settings.tables.format))


def sorted_rows(rows: Sequence[Row], sort: str) -> list[Row]:
    """The rows in the order of a column, `-` for the reverse; those without a value are last."""
    key = sort.removeprefix("-")
    values = {row.path: -row.written if key == "age" else getattr(row, key) for row in rows}
    known = [row for row in rows if values[row.path] is not None]
    known.sort(key=lambda row: values[row.path], reverse=sort.startswith("-"))
    return [*known, *(row for row in rows if values[row.path] is None)]


def differing(rows: Sequence[Row]) -> list[str]:
    """For each row the settings in which it is unlike most of the rows, as words."""
    found: list[list[str]] = [[] for _ in rows]
    for key, values in _different_settings(rows).items():
        usual = Counter(values).most_common(1)[0][0]
        for words, value in zip(found, values, strict=True):
            if value not in ("", usual):
                words.append(f"{key}={value}")
    return [
        f"! {row.problem}" if row.problem else " ".join(words)
        for row, words in zip(rows, found, strict=True)
    ]


def _different_settings(rows: Sequence[Row]) -> dict[str, list[str]]:
    """The values of the settings that are not the same in all rows; "" where a row has none."""
    keys = {key: None for row in rows for key in row.settings if not key.startswith(_NOT_SHOWN)}
    columns = {
        key: [text(row.settings[key]) if key in row.settings else "" for row in rows]
        for key in keys
    }
    return {key: values for key, values in columns.items() if len(set(values)) > 1}


def _numbers(rows: Sequence[Row]) -> Table:
    """The table for other programs: numbers as they are, times in seconds, `written` in UTC, and a
    column for each setting that differs."""
    settings = _different_settings(rows)
    head = ["path", *_HEAD[:5], "steps", *_HEAD[5:8], "remarks", "written", "seed", *settings]
    cells = []
    for row, *values in zip(rows, *settings.values(), strict=True):
        written = datetime.fromtimestamp(row.written, UTC).isoformat(timespec="seconds")
        numbers = (row.step, row.steps, row.left, row.loss, row.error)
        cells.append(
            [
                *(str(row.path), row.name, row.task, row.model, row.state),
                *("" if number is None else str(number) for number in numbers),
                *(row.remarks, written, text(row.settings.get("seed", "")), *values),
            ]
        )
    return Table(head, cells)


def _lines(rows: Sequence[Row], differences: Sequence[str]) -> Iterator[str]:
    """The lines of the table; a row's files are read when its line is asked for."""
    known = [_known(row) for row in rows]
    widths = [
        _WIDTHS.get(name) or max(len(name), *(len(cells[name]) for cells in known))
        for name in _HEAD
    ]
    yield _line([*_HEAD, "differs in"], widths)
    for row, difference in zip(rows, differences, strict=True):
        yield _line([*_cells(row), difference], widths)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Names flush left, numbers flush right, the last cell as long as it is."""
    texts = [
        cell.ljust(width) if index < 4 else cell.rjust(width)
        for index, (cell, width) in enumerate(zip(cells, widths, strict=False))
    ]
    return "  ".join([*texts, cells[-1]]).rstrip()


def _cells(row: Row) -> list[str]:
    """A row's cells, in the order of _HEAD."""
    error = _number(row.error) + ("*" if row.error is not None and row.remarks else "")
    cells = _known(row) | {
        "left": duration(row.left), "loss": _number(row.loss), "error": error
    }  # fmt: skip
    return [cells[name] for name in _HEAD]


def _known(row: Row) -> dict[str, str]:
    """The cells of the columns that need no further files."""
    return {
        "name": row.name,
        "task": row.task,
        "model": row.model,
        "state": row.state,
        "step": f"{row.step:,}/{row.steps:,}" if row.steps else f"{row.step:,}",
        "age": duration(max(time.time() - row.written, 0)),
    }


def duration(seconds: float | None) -> str:
    """'3 h', '25 min': the largest unit that it has two of, or one second; '' for None."""
    if seconds is None:
        return ""
    for size, unit in _UNITS:
        if seconds >= 2 * size or size == 1:
            return f"{seconds / size:.0f} {unit}"
    raise AssertionError


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if math.isfinite(value) else str(value)


def _notes(rows: Sequence[Row]) -> list[str]:
    """What the star of an error means, a line for each remark."""
    remarks = {row.remarks: None for row in rows if row.error is not None and row.remarks}
    return [f"* {remark}" for remark in remarks]


def _count(rows: Sequence[Row]) -> str:
    counts = Counter(row.state for row in rows)
    states = ", ".join(f"{number:,} {state}" for state, number in counts.most_common())
    return f"{len(rows):,} runs: {states}" if len(rows) > 1 else f"1 run: {rows[0].state}"


_OWN: Mapping[str, Callable[[Row], str]] = {
    "name": lambda row: row.name,
    "task": lambda row: row.task,
    "model": lambda row: row.model,
    "state": lambda row: row.state,
}


def chosen(rows: Sequence[Row], filters: Mapping[str, str]) -> list[Row]:
    """The rows that fit all filters: a key of a row or of its settings with one value or several,
    split by commas; `name` may be a pattern.

    Raises ConfigError for a key that no run has, and a state that there is not."""
    for key, values in filters.items():
        fits = _test(rows, key, values)
        rows = [row for row in rows if fits(row)]
    return list(rows)


def _test(rows: Sequence[Row], key: str, values: str) -> Callable[[Row], bool]:
    wanted = [value.strip() for value in values.split(",")]
    if key == "state":
        for value in wanted:
            if value not in _STATES:
                raise ConfigError("state", f"cannot be {value!r}{nearest(value, _STATES)}")
    if key in _OWN:
        of = _OWN[key]
        return lambda row: (
            any(fnmatchcase(of(row), value) for value in wanted)
            or (
                key == "name" and row.settings.get("name") in wanted  # that a user gave it
            )
        )
    full = _setting(rows, key)
    return lambda row: full in row.settings and text(row.settings[full]) in wanted


def _setting(rows: Sequence[Row], key: str) -> str:
    """The full name of a setting: itself, or the only one with this last part."""
    keys = {name for row in rows for name in row.settings}
    if key in keys or not keys:
        return key
    short = [name for name in keys if name.rpartition(".")[2] == key]
    if len(short) == 1:
        return short[0]
    if short:
        raise ConfigError(key, f"may be {' or '.join(sorted(short))}: give it in full")
    hint = nearest_key(key, [*_OWN, *keys])
    if hint.startswith("; expected one of"):  # a hundred names
        hint = "; docs/reference.md has them"
    raise ConfigError(key, f"is not a setting of any run{hint}")


def text(value: Any) -> str:
    """A setting as the command line has it."""
    if isinstance(value, list):
        return f"[{','.join(map(text, value))}]"
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
