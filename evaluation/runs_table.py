"""A table of runs, which everything reads that is about many of them; `python run.py action=list`
(show/listing.py) prints it. No torch here.

table = runs_table("runs")                      # a row a run
table[table.state == "finished"].sort_values("error")
runs_table("runs", errors="by_loop")            # a row a run and loop
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from looplab.conf.build import config_to_mapping, flatten
from looplab.conf.command import as_word
from looplab.conf.imports import imported_code
from looplab.conf.in_words import NOT_OF_NUMBERS
from looplab.conf.mistakes import ConfigError
from looplab.conf.saved import plugins_of, read_mapping
from looplab.conf.schema import Config
from looplab.training.run_folder.files import read_record
from looplab.training.run_folder.sources import OTHER_CODE, changed_code
from looplab.training.run_folder.status import (
    curve_name,
    last_record,
    one_number,
    runs_in,
    seconds_left,
    status_of,
)

from .plain import Content, Fields
from .run_sets import run_sets_in

if TYPE_CHECKING:
    from pandas import DataFrame

_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_NOT_SHOWN = (*NOT_OF_NUMBERS, "task.name", "model.family", "model.connectivity")  # own columns
_CURVES = {"by_examples": ("k", "model_at_b"), "by_loop": ("loop", "model")}


@dataclass(frozen=True)
class Row:
    """What is known of a run; the fields are the first columns of `runs_table`, in their order."""

    path: str
    name: str
    task: str  # "" of a run that cannot be read
    model: str  # its family, or way to loop
    seed: int | None
    state: str
    step: int
    steps: int
    left: float | None  # seconds that it still takes
    loss: float | None  # the last that was logged
    error: float | None  # of the last query at b loops; of a language model bits per byte
    remarks: str  # what the error must be read with; why the run cannot be read
    written: float  # seconds since 1970
    # By dotted key, and the content of evaluation.json; both empty where there is none.
    settings: Content
    evaluation: Content


def runs_table(runs: str | Path | Sequence[str | Path] = "runs", errors: str = "") -> DataFrame:
    """Make a table of runs.

    Parameters
    ----------
    runs : str or path, or sequence of them
        A folder with runs, also in the folders in it; or single run folders.
    errors : {"", "by_examples", "by_loop"}
        A row for each run, or for each run and number of examples, or loop, that was evaluated.

    Returns
    -------
    pandas.DataFrame
        Columns: `path`, `name`, `task`, `model` (its family, or way to loop), `seed`, `state`,
        `step`, `steps`, `left` (seconds that it still takes), `loss` (the last that was logged),
        `error` (of the last query at b loops, of a language model bits per byte), `remarks` (what
        its error must be read with; why it cannot be read), `written` (seconds since 1970), `group`
        (the grids and experiments that it is a run of, with ; between them), with
        `errors` also `k` or `loop`, `mean`, `low` and `high` of the model's errors at b loops; then
        the settings in which any of the runs differs from the defaults.

    Raises
    ------
    ConfigError
        Where there is no run, or no such errors.

    Examples
    --------
    >>> from looplab import load_run, runs_table
    >>> runs_table([load_run("shipped/linear").path]).loc[0, "task"]
    'linear'
    """
    from pandas import DataFrame

    by = curve_name("errors", errors) if errors else ""
    rows = rows_of(runs)
    if not rows:
        raise ConfigError("no runs yet", no_runs(runs))
    groups = run_sets_in(folders_of(rows))
    defaults = _defaults()
    settings: dict[str, None] = {}  # those in which a run differs from the defaults, in order
    for row in rows:
        for key, value in row.settings.items():
            if not key.startswith(_NOT_SHOWN) and value != defaults.get(key):
                settings[key] = None
    lines = list[dict[Any, Any]]()
    for row in rows:
        line = dict[Any, Any](vars(row))
        del line["settings"], line["evaluation"]
        line["group"] = ";".join(group.path.name for group in groups if row.path in group.runs)
        values = {key: row.settings.get(key) for key in settings}
        if not by:
            lines.append(line | values)
            continue
        x, name = _CURVES[by]
        curves = row.evaluation.get(by, {x: [], name: {}})
        # Columns x, mean, low and high.
        points = DataFrame({x: curves[x]} | curves[name])
        lines += [line | point | values for point in points.to_dict("records")]
    return DataFrame(lines)


def rows_of(runs: str | Path | Sequence[str | Path]) -> list[Row]:
    """The rows of `runs_table` before they are a table."""
    if isinstance(runs, str | Path):
        runs = runs_in(Path(runs))
    return [_row(Path(path)) for path in runs]


def folders_of(rows: Sequence[Row]) -> dict[Path, None]:
    """The folders that the runs of rows are in."""
    return dict.fromkeys(Path(row.path).parent for row in rows)


def no_runs(folder: object) -> str:
    """What is said of a folder whose runs are asked for and that has none."""
    return f"in {folder}: python run.py task=linear makes one"


def _row(path: Path) -> Row:
    problem = ""
    settings = Fields()
    plugins = dict[str, bytes]()
    try:
        mapping = read_mapping(path)
        settings = {**_defaults(), **flatten(mapping)}
        for plugin in plugins_of(path, mapping):
            plugins |= imported_code(Path(plugin))
    except ConfigError as error:
        problem = str(error)
    status = status_of(path)
    record = read_record(path / "evaluation.json", "evaluation")
    evaluation = record.content or {}
    # An evaluation of other weights than the run has now.
    if evaluation.get("step") != status["step"]:
        evaluation = {}
    last_error = None
    with suppress(KeyError, IndexError, TypeError):  # none, or one of another form
        last_error = one_number(evaluation)
    last = last_record(path)
    steps = settings.get("training.steps")
    if not isinstance(steps, int):
        problem = problem or f"training.steps is no number: {steps!r}"
        steps = 0
    left = seconds_left(last, steps) if status["state"] == "running" else None
    remarks = _current_remarks(path, evaluation.get("remarks", ()), plugins)
    files = [file for file in (path / "status.json", path / "metrics.jsonl") if file.exists()]
    written = max(file.stat().st_mtime for file in files or [path])
    model = settings.get("model.connectivity") or settings.get("model.family", "")
    return Row(
        path=str(path),
        name=path.name,
        task=str(settings.get("task.name", "")),
        model=str(model),
        seed=settings.get("seed"),
        state=status["state"],
        step=int(status["step"]),
        steps=steps,
        left=left,
        loss=last.get("loss"),
        error=last_error,
        remarks=problem or record.problem or "; ".join(remarks),
        written=written,
        settings=settings,
        evaluation=evaluation,
    )


def _current_remarks(
    path: Path, remarks: Sequence[str], plugins: Mapping[str, bytes]
) -> Sequence[str]:
    """The remarks of an evaluation, without that on other code where the edit was taken back."""
    others = [line for line in remarks if not line.startswith(OTHER_CODE)]
    if len(others) == len(remarks):
        return remarks
    made_with = read_record(path / "environment.json", "environment").content or {}
    return remarks if changed_code(made_with, plugins) else others


def duration(seconds: float | None) -> str:
    """'3.4 h', '25 min': in the largest unit that it has two of, or in seconds; '' for None."""
    if seconds is None:
        return ""
    size, unit = next(entry for entry in _UNITS if seconds >= 2 * entry[0] or entry[0] == 1)
    number = seconds / size
    return f"{number:.2g} {unit}" if 1 < number < 9.95 else f"{number:,.0f} {unit}"


def differing(rows: Sequence[Row]) -> dict[str, list[str]]:
    """The settings that are not the same in all rows, as words; "" where a row has none."""
    columns = dict[str, list[str]]()
    for index, row in enumerate(rows):
        for key, value in row.settings.items():
            if not key.startswith(_NOT_SHOWN):
                words = columns.setdefault(key, [""] * len(rows))
                words[index] = as_word(value)
    return {key: words for key, words in columns.items() if len(set(words)) > 1}


@cache
def _defaults() -> Content:
    """The default of each setting by dotted key: what an older version did not write."""
    return flatten(config_to_mapping(Config()))
