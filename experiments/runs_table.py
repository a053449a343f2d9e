"""A table of runs, which everything reads that is about many of them; `python run.py action=list`
prints it. No torch here.

table = runs_table("runs")                      # a row a run
table[table.state == "finished"].sort_values("error")
runs_table("runs", errors="by_loop")            # a row a run and loop
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from looplab.conf.build import config_to_mapping, flatten
from looplab.conf.command import as_word, described, run_command
from looplab.conf.mistakes import ConfigError, check_choice, nearest, nearest_key
from looplab.conf.saved import read_mapping
from looplab.conf.schema import Config, TableSettings
from looplab.conf.setting import check_settings, setting
from looplab.conf.words import check_words
from looplab.evaluation.tables import Table, document
from looplab.training.run_folder.files import read_record
from looplab.training.run_folder.sources import is_current
from looplab.training.run_folder.status import last_record, runs_in, status_of

if TYPE_CHECKING:
    from pandas import DataFrame

_HELP = """\
A table of runs: name, task, model, state, steps, time left, last training loss, error of the last
query at b loops, time since it was written, and the settings in which it is unlike most of them.

  python run.py action=list
  python run.py action=list task=linear,sparse_linear state=running
  python run.py action=list 'name=linear-*' loops.b=12 sort=error
  python run.py action=list --csv > runs.csv

Any setting of a run chooses, with one value or several. Settings, with their defaults:
{settings}
"""
SORTS = ("name", "task", "model", "state", "step", "left", "loss", "error", "age")
_HEAD = ("name", "task", "model", "state", "step", "left", "loss", "error", "age", "differs in")
_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
# In columns of their own, or of no meaning for a run's numbers.
_NOT_SHOWN = (
    *("schema_version", "task.name", "model.family", "model.connectivity", "seed", "folder"),
    *("device", "backend", "plugins", "wandb", "tensorboard", "name", "scale", "recipe"),
    *("evaluation.", "figures.", "tables.", "training.checkpoint_every", "training.log_every"),
)
_STATES = ("new", "running", "interrupted", "stopped", "failed", "finished", "unknown")
Row = dict[str, Any]


def runs_table(
    runs: str | Path | Sequence[str | Path] = "runs", errors: Literal["", "by_k", "by_loop"] = ""
) -> DataFrame:
    """A pandas table with a row for each run in a folder, and in the folders in it, or for each of
    several run folders.

    Columns: `path`, `name`, `task`, `model` (its family, or way to loop), `seed`, `state`, `step`,
    `steps`, `left` (seconds that it still takes), `loss` (the last that was logged), `error` (of
    the last query at b loops, of a language model bits per byte), `remarks` (what its error must be
    read with; why it cannot be read), `written` (seconds since 1970), then the settings in which
    any of the runs differs from the defaults. With `errors` there is a row for each run and number
    of examples, or loop, that was evaluated, with the columns `k` or `loop`, `mean`, `low` and
    `high` of the model's errors at b loops. Raises ConfigError where there is no such folder.
    """
    from pandas import DataFrame

    found, defaults = rows_of(runs), _defaults()
    keys = dict.fromkeys(
        key
        for row in found
        for key, value in row["settings"].items()
        if not key.startswith(_NOT_SHOWN) and value != defaults.get(key)
    )
    rows = []
    for row in found:
        facts = {key: value for key, value in row.items() if key not in ("settings", "evaluation")}
        own = {key: row["settings"].get(key) for key in keys}
        rows += [facts | curve | own for curve in (_errors_of(row, errors) if errors else [{}])]
    return DataFrame(rows)


def _errors_of(row: Row, errors: str) -> list[Row]:
    """The errors of a run's model by number of examples or loop."""
    x, part, name = ("loop", "by_loop", "model")
    if errors == "by_k":
        x, part, name = ("k", "by_examples", "model_at_b")
    found = row["evaluation"].get(part)
    if found is None:
        return []
    columns = (found[x], *(found[name][each] for each in ("mean", "low", "high")))
    names = (x, "mean", "low", "high")
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def rows_of(runs: str | Path | Sequence[str | Path]) -> list[Row]:
    """The rows of `runs_table` before they are a table: with all `settings` by dotted key and the
    newest `evaluation`, both empty where there is none."""
    if isinstance(runs, str | Path):
        if not Path(runs).is_dir():
            raise ConfigError("folder", f"must be a folder with runs: there is no folder {runs}")
        runs = runs_in(Path(runs))
    return [_row(Path(path)) for path in runs]


def _row(path: Path) -> Row:
    problem, settings = "", dict[str, Any]()
    try:
        settings = {**_defaults(), **flatten(read_mapping(path))}
    except ConfigError as error:
        problem = str(error)
    status, last = status_of(path), last_record(path)
    record = read_record(path / "evaluation.json", "evaluation")
    evaluation = record.content or {}
    if evaluation.get("step") != status["step"]:
        evaluation = {}
    steps, rate = int(settings.get("training.steps", 0)), _number(last.get("steps_per_second"))
    left = None
    if status["state"] == "running" and rate:
        left = max(steps - int(last["step"]), 0) / rate
    times = [_mtime(path / name) for name in ("status.json", "metrics.jsonl")]
    last_error = None
    with suppress(KeyError, IndexError, TypeError):  # none, or one of another form
        last_error = _number(one_number(evaluation))
    return {
        "path": str(path),
        "name": path.name,
        "task": str(settings.get("task.name", "")),
        "model": str(settings.get("model.connectivity") or settings.get("model.family", "")),
        "seed": settings.get("seed"),
        "state": status["state"],
        "step": int(status["step"]),
        "steps": steps,
        "left": left,
        "loss": _number(last.get("loss")),
        "error": last_error,
        "remarks": problem or record.problem or _remarks(path, evaluation),
        "written": max(times) or _mtime(path),
        "settings": settings,
        "evaluation": evaluation,
    }


def _remarks(path: Path, evaluation: Mapping[str, Any]) -> str:
    """What an evaluation says of the run, as that its training was unfinished; not that it is of
    other code, where an edit was taken back since."""
    lines = list(map(str, evaluation.get("remarks", ())))
    if any(line.startswith("trained by other code") for line in lines):
        content = read_record(path / "environment.json", "environment").content or {}
        parts = [content, *content.get("continued", [])]
        if all(is_current(part.get("sources", {"unknown": ""})) for part in parts):
            lines = [line for line in lines if not line.startswith("trained by other code")]
    return "; ".join(lines)


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


def count_of(rows: Sequence[Row]) -> str:
    """How many runs there are, and how many in each state."""
    counts = Counter(row["state"] for row in rows)
    states = ", ".join(f"{number:,} {state}" for state, number in counts.most_common())
    return f"{len(rows):,} runs: {states}" if len(rows) > 1 else f"1 run: {rows[0]['state']}"


def duration(seconds: float | None) -> str:
    """'3 h', '25 min': the largest unit that it has two of, or one second; '' for None."""
    if seconds is None:
        return ""
    size, unit = next(each for each in _UNITS if seconds >= 2 * each[0] or each[0] == 1)
    return f"{seconds / size:.0f} {unit}"


def differing(rows: Sequence[Row]) -> dict[str, list[str]]:
    """The settings that are not the same in all rows, as words; "" where a row has none."""
    keys = dict.fromkeys(
        key for row in rows for key in row["settings"] if not key.startswith(_NOT_SHOWN)
    )
    columns = {
        key: [as_word(row["settings"][key]) if key in row["settings"] else "" for row in rows]
        for key in keys
    }
    return {key: values for key, values in columns.items() if len(set(values)) > 1}


@dataclass(frozen=True)
class ListSettings:
    """Which folder, in which order, and how the table is printed."""

    folder: str = setting("runs", "where the runs are; also those in the folders in it")
    sort: str = setting("age", f"by {', '.join(SORTS)}; -age turns the order around")
    tables: TableSettings = TableSettings()

    def check(self) -> None:
        """Raises ConfigError for the first invalid setting."""
        check_settings("", self)
        check_choice("sort", self.sort.removeprefix("-"), SORTS)


def main(words: Sequence[str]) -> int:
    """Run `action=list`; returns the exit code. A word key=value that is no setting of the command
    is a filter."""
    words = ["tables.format=csv" if word == "--csv" else word for word in words]
    rest = [word for word in words if word != "action=list"]
    own = ("folder", "sort", "tables.format", "action")
    filters = [word for word in rest if "=" in word and word.partition("=")[0] not in own]

    def show(settings: ListSettings) -> None:
        check_words(filters)
        try:
            print(_listing(settings, dict(word.split("=", 1) for word in filters)), flush=True)
        except BrokenPipeError:  # as of `| head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    asked = [word for word in rest if word not in filters]
    help_text = _HELP.format(settings=described(ListSettings))
    return run_command("run.py", ListSettings, asked, lambda: help_text, show)


def _listing(settings: ListSettings, filters: Mapping[str, str]) -> str:
    """The table as text. Raises ConfigError where the folder holds no run, and as `_fits`."""
    everything = rows_of(settings.folder)
    if not everything:
        raise ConfigError("folder", f"holds no run: {settings.folder}")
    rows = everything
    for key, values in filters.items():
        rows = [row for row in rows if _fits(row, everything, key, values.split(","))]
    if not rows:
        words = " ".join(f"{key}={value}" for key, value in filters.items())
        return f"none of {len(everything)} runs fits {words}"
    key = settings.sort.removeprefix("-")
    values_of = {row["path"]: -row["written"] if key == "age" else row[key] for row in rows}
    known = [row for row in rows if values_of[row["path"]] is not None]
    known.sort(key=lambda row: values_of[row["path"]], reverse=settings.sort.startswith("-"))
    rows = [*known, *(row for row in rows if values_of[row["path"]] is None)]
    if settings.tables.format == "csv":
        return runs_table([row["path"] for row in rows]).to_csv(index=False).rstrip()
    notes = dict.fromkeys(row["remarks"] for row in rows if row["error"] is not None)
    return document(
        [
            Table(_HEAD, _cells(rows)),
            *["", count_of(rows)] * (settings.tables.format == "text"),
            *(f"* {remark}" for remark in notes if remark),
        ],
        settings.tables.format,
    )


def _cells(rows: Sequence[Row]) -> list[list[str]]:
    """The cells of the rows, in the order of _HEAD; the last has the settings in which a row is
    unlike most of them, or why it cannot be read."""
    words: list[list[str]] = [[] for _ in rows]
    for key, values in differing(rows).items():
        usual = Counter(values).most_common(1)[0][0]
        for own, value in zip(words, values, strict=True):
            own += [f"{key}={value}"] if value not in ("", usual) else []
    now, cells = time.time(), []
    for row, own in zip(rows, words, strict=True):
        star = "*" if row["error"] is not None and row["remarks"] else ""
        cells.append(
            [
                *(row[name] for name in _HEAD[:4]),
                f"{row['step']:,}/{row['steps']:,}" if row["steps"] else f"{row['step']:,}",
                duration(row["left"]),
                *("" if row[name] is None else f"{row[name]:.4g}" for name in ("loss", "error")),
                duration(max(now - row["written"], 0)),
                " ".join(own) if row["settings"] else f"! {row['remarks']}",
            ]
        )
        cells[-1][7] += star
    return cells


def _fits(row: Row, everything: Sequence[Row], key: str, wanted: Sequence[str]) -> bool:
    """Whether a row has one of the values of a key, its own or a setting's; `name` may be a
    pattern. Raises ConfigError for a key that no run has, and a state that there is not."""
    for value in wanted if key == "state" else ():
        if value not in _STATES:
            raise ConfigError("state", f"cannot be {value!r}{nearest(value, _STATES)}")
    if key in _HEAD[:4]:
        given = row["settings"].get("name") if key == "name" else None  # that a user gave it
        return given in wanted or any(fnmatchcase(row[key], value) for value in wanted)
    full = _setting(everything, key)
    return full in row["settings"] and as_word(row["settings"][full]) in wanted


def _setting(rows: Sequence[Row], key: str) -> str:
    """The full name of a setting: itself, or the only one with this last part."""
    keys = {name for row in rows for name in row["settings"]}
    if key in keys or not keys:
        return key
    short = [name for name in keys if name.rpartition(".")[2] == key]
    if len(short) == 1:
        return short[0]
    if short:
        raise ConfigError(key, f"may be {' or '.join(sorted(short))}: give it in full")
    hint = nearest_key(key, [*_HEAD[:4], *keys])
    if hint.startswith("; expected one of"):  # a hundred names
        hint = "; docs/reference.md has them"
    raise ConfigError(key, f"is not a setting of any run{hint}")


@cache
def _defaults() -> Mapping[str, Any]:
    """The default of each setting by dotted key: what an older version did not write."""
    return flatten(config_to_mapping(Config()))


def _mtime(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _number(value: Any) -> float | None:
    """A number as it is; None for anything else, as for the null of an infinite loss."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
