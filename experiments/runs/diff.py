"""`action=diff`: what runs differ in, of settings, of what they were made with, and of results. No
torch here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reloop.conf.mistakes import ConfigError
from reloop.evaluation.tables import Part, Table, document
from reloop.training.run_folder.files import read_record
from reloop.training.run_folder.find import named_runs

from .filters import text
from .listing import duration
from .row import Row, rows_of
from .settings import DiffSettings

_ENVIRONMENT_LEFT_OUT = ("sources", "continued", "command")


def difference(settings: DiffSettings) -> str:
    """The tables as text. Raises ConfigError for fewer than two runs, and for one whose
    configuration cannot be read."""
    rows = rows_of(named_runs(settings.runs))
    if len(rows) < 2:
        raise ConfigError("runs", f"must name at least two run folders, got {len(rows)}")
    for row in rows:
        if row.problem:
            raise ConfigError("runs", f"cannot hold {row.path}: {row.problem}")
    names = [row.name for row in rows]
    made = [_environment(row) for row in rows]
    parts: list[Part] = []
    for what, columns in (
        ("settings", [dict(row.settings) for row in rows]),
        ("made with", made),
        ("results", [_results(row) for row in rows]),
    ):
        table = _different(columns)
        parts += [
            Table([what, *names], table) if table else f"{what}: the same in all",
            "",
        ]
    return document(parts[:-1], settings.tables.format)


def _different(columns: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """A row for each key whose values are not all the same; '-' where a run lacks it."""
    keys = {key: None for column in columns for key in column}
    rows = [
        [key, *(text(column[key]) if key in column else "-" for column in columns)] for key in keys
    ]
    return [row for row in rows if len(set(row[1:])) > 1]


def _environment(row: Row) -> dict[str, Any]:
    """Versions and machine, and the source files by the beginning of their checksums."""
    content = read_record(row.path / "environment.json", "environment").content or {}
    sources = content.get("sources")
    facts = {key: value for key, value in content.items() if key not in _ENVIRONMENT_LEFT_OUT}
    return facts | {
        str(file): str(digest)[:8]
        for file, digest in (sources.items() if isinstance(sources, dict) else ())
    }


def _results(row: Row) -> dict[str, Any]:
    numbers = {"loss": row.loss, "error": row.error, "left": row.left}
    shown = {key: f"{value:.4g}" for key, value in numbers.items() if value is not None}
    if row.left is not None:
        shown["left"] = duration(row.left)
    return {"state": row.state, "step": row.step, **shown}
