"""`action=list`: a table of runs, shown row by row while further files are read. No torch and no
NumPy here, since a folder of a thousand runs is to be shown within a second.

rows = rows_of([Path("runs/A"), Path("runs/B")]); rows[0].state
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

from looplab.conf.build import config_to_mapping, flatten
from looplab.conf.command import as_word
from looplab.conf.mistakes import ConfigError, nearest, nearest_key
from looplab.conf.saved import read_mapping
from looplab.conf.schema import Config
from looplab.evaluation.tables import Part, Table, document
from looplab.training.run_folder.files import read_record
from looplab.training.run_folder.sources import is_current
from looplab.training.run_folder.status import last_record, runs_in, status_of

from .command import ListSettings

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
_OWN = ("name", "task", "model", "state")  # what chooses beside the settings


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
        print("\n".join(["", count_of(rows), *_notes(rows)]))
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
        key: [as_word(row.settings[key]) if key in row.settings else "" for row in rows]
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
                *(row.remarks, written, as_word(row.settings.get("seed", "")), *values),
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


def count_of(rows: Sequence[Row]) -> str:
    """How many runs there are, and how many in each state."""
    counts = Counter(row.state for row in rows)
    states = ", ".join(f"{number:,} {state}" for state, number in counts.most_common())
    return f"{len(rows):,} runs: {states}" if len(rows) > 1 else f"1 run: {rows[0].state}"


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
        return lambda row: (
            any(fnmatchcase(getattr(row, key), value) for value in wanted)
            # That a user gave it.
            or (key == "name" and row.settings.get("name") in wanted)
        )
    full = _setting(rows, key)
    return lambda row: full in row.settings and as_word(row.settings[full]) in wanted


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


@dataclass(frozen=True)
class Row:
    """A run folder. `settings` are its configuration by dotted key, with the defaults of keys that
    an older version did not write; empty where `problem` says that it cannot be read. `written` is
    when its status or its metrics were last written, in seconds since 1970."""

    path: Path
    settings: Mapping[str, Any]
    state: str
    step: int
    written: float
    problem: str = ""

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def task(self) -> str:
        return str(self.settings.get("task.name", ""))

    @property
    def model(self) -> str:
        """The family, or the connectivity of a looped model that has one."""
        connectivity = self.settings.get("model.connectivity")
        return str(connectivity or self.settings.get("model.family", ""))

    @property
    def steps(self) -> int:
        return int(self.settings.get("training.steps", 0))

    @cached_property
    def loss(self) -> float | None:
        """The last training loss that was logged."""
        return _float(self._last.get("loss"))

    @cached_property
    def left(self) -> float | None:
        """Seconds that a running training still takes, at the steps per second of its last log
        interval: later steps may have more loops."""
        rate = _float(self._last.get("steps_per_second"))
        if self.state != "running" or not rate:
            return None
        return max(self.steps - int(self._last["step"]), 0) / rate

    @property
    def error(self) -> float | None:
        """The `one_number` of the newest evaluation: the error of the last query at b loops, of a
        language model the bits per byte of its held-out text; None where that was of an earlier
        step."""
        try:
            return _float(one_number(self._evaluation))
        except (KeyError, IndexError, TypeError):
            return None

    @property
    def remarks(self) -> str:
        """What that evaluation says of the run, as that its training was unfinished; not that it is
        of other code, where an edit was taken back since."""
        found = self._evaluation.get("remarks")
        lines = list(map(str, found)) if isinstance(found, list) else []
        return "; ".join(
            line for line in lines if not line.startswith("trained by other code") or self._edited
        )

    @cached_property
    def _edited(self) -> bool:
        content = read_record(self.path / "environment.json", "environment").content or {}
        parts = [content, *content.get("continued", [])]
        return not all(is_current(part.get("sources", {"unknown": ""})) for part in parts)

    @cached_property
    def _evaluation(self) -> Mapping[str, Any]:
        """The newest evaluation; empty where it was of another step."""
        content = read_record(self.path / "evaluation.json", "evaluation").content or {}
        return content if content.get("step") == self.step else {}

    @cached_property
    def _last(self) -> Mapping[str, Any]:
        return last_record(self.path)


def rows_of(paths: Sequence[Path]) -> list[Row]:
    """The rows of run folders, in this order."""
    defaults, rows = flatten(config_to_mapping(Config())), []
    for path in paths:
        problem, settings = "", {}
        try:
            settings = {**defaults, **flatten(read_mapping(path))}
        except ConfigError as error:
            problem = str(error)
        status = status_of(path)
        times = [_mtime(path / name) for name in ("status.json", "metrics.jsonl")]
        written = max(times) or _mtime(path)
        rows.append(Row(path, settings, status["state"], int(status["step"]), written, problem))
    return rows


def _mtime(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _float(value: Any) -> float | None:
    """A number as it is; None for anything else, as for the null of an infinite loss."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def one_number(evaluation: Mapping[str, Any]) -> Any:
    """The content of evaluation.json gives the error of the last query after b loops, over the
    task's divisor; of a language model the bits per byte of its held-out text after b loops.

    None where that is not finite. Raises KeyError, IndexError or TypeError for a content of another
    form.
    """
    if "language" in evaluation:
        held_out = evaluation["language"]["texts"]["held_out"]
        return held_out["bits_per_byte"]["mean"][evaluation["b"] - 1]
    return evaluation["by_examples"]["model_at_b"]["mean"][-1]
