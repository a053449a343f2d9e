"""Which rows a user asks for: words such as task=linear, state=running,stopped or loops.b=12. No
torch here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from reloop.conf.mistakes import ConfigError, nearest, nearest_key

from .row import Row

_OWN: Mapping[str, Callable[[Row], str]] = {
    "name": lambda row: row.name,
    "task": lambda row: row.task,
    "model": lambda row: row.model,
    "state": lambda row: row.state,
}
_STATES = ("new", "running", "interrupted", "stopped", "failed", "finished", "unknown")


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
