"""A table with two classes, and how a DataFrame becomes one.

table = Table.from_frame("mine", frame, target="bought")
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

LEAST_ROWS = 41  # a prompt's: 40 of context and the query (arXiv 2311.12424, Appendix)
_FEW = 5  # names that a message lists
_UNKNOWN = MappingProxyType(
    dict.fromkeys(("openml_id", "version", "name", "target", "licence", "url", "md5", "date"))
)


class TableError(ValueError):
    """A table that cannot be used, and why. One line, fit for a user."""


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of numbers, each in one of two classes.

    xs is float64 [rows, features] and finite; ys is int64 [rows], the index into `classes`.
    `source` says where the table comes from, in plain values: openml_id, version, name, target,
    licence, url, md5, date (None where unknown) and notes, a list of sentences.

    Raises TableError, a ValueError, for arrays that are not so.
    """

    name: str
    features: tuple[str, ...]
    xs: NDArray[np.float64]
    ys: NDArray[np.int64]
    classes: tuple[str, str]
    source: Mapping[str, Any] = field(default_factory=lambda: source())

    def __post_init__(self) -> None:
        _check_arrays(self)

    @property
    def counts(self) -> tuple[int, int]:
        """Rows of class 0 and of class 1."""
        ones = int(self.ys.sum())
        return len(self.ys) - ones, ones

    @classmethod
    def from_frame(
        cls,
        name: str,
        frame: Any,
        target: str | None = None,
        origin: Mapping[str, Any] = _UNKNOWN,
    ) -> Table:
        """The numeric columns of a pandas DataFrame that vary, and the classes of its column
        `target` (the last one, if None).

        Columns left out are named in the notes. Class 0 is the first category of a categorical
        column, the lesser value of any other.

        Raises TableError for a target that is not there, is not complete or has not two classes,
        for no numeric column that varies, for values that are missing or not finite, and for fewer
        than LEAST_ROWS rows.
        """
        target = _only_column(name, frame, target)
        if len(frame) < LEAST_ROWS:
            raise TableError(f"{name} has {len(frame)} rows, and a prompt takes {LEAST_ROWS}")
        classes, ys = _classes(name, frame[target])
        features, left_out = _features(name, frame, target)
        xs = np.empty((len(frame), len(features)))
        for index, feature in enumerate(features):
            xs[:, index] = _numbers(frame[feature])
        known = {**origin, "target": str(target)}
        notes = [*known.pop("notes", ()), *left_out]
        names = tuple(str(feature) for feature in features)
        return cls(name, names, xs, ys, classes, source(notes, **known))


def source(notes: Iterable[str] = (), **known: Any) -> Mapping[str, Any]:
    """Where a table comes from: what is known, None for the rest."""
    return {**_UNKNOWN, **known, "notes": list(notes)}


def _check_arrays(table: Table) -> None:
    xs, ys = table.xs, table.ys
    rows = len(ys)
    if xs.dtype != np.float64 or ys.dtype != np.int64:
        raise TableError(
            f"{table.name}: xs must be float64 and ys int64, not {xs.dtype}, {ys.dtype}"
        )
    if ys.ndim != 1 or xs.shape != (rows, len(table.features)) or not table.features:
        raise TableError(
            f"{table.name}: xs must be [rows, features] and ys [rows]; for {len(table.features)} "
            f"features they are {xs.shape} and {ys.shape}"
        )
    if not all(np.isfinite(xs[:, index]).all() for index in range(xs.shape[1])):
        raise TableError(f"{table.name}: xs must be finite")
    if len(set(table.classes)) != 2 or not rows or (ys.min(), ys.max()) != (0, 1):
        raise TableError(f"{table.name}: ys must hold 0 and 1, for two classes of different names")


def _only_column(name: str, frame: Any, target: str | None) -> Any:
    """The target's column name, in a frame whose columns all have names of their own."""
    columns = list(frame.columns)
    twice = [column for column, times in Counter(map(str, columns)).items() if times > 1]
    if twice:
        raise TableError(f"{name} has more than one column named {_listed(twice)}")
    if not columns or (target is not None and target not in columns):
        raise TableError(f"{name} has no column {target!r}; its columns: {_listed(columns)}")
    return columns[-1] if target is None else target


def _classes(name: str, column: Any) -> tuple[tuple[str, str], NDArray[np.int64]]:
    """The two classes' names, and each row's."""
    import pandas

    missing = int(column.isna().sum())
    if missing:
        raise TableError(
            f"{name}: {missing} of {len(column)} rows have no class (column {column.name!r}); "
            "leave those rows out"
        )
    values = list(column.unique())
    if len(values) != 2:
        some = f" ({_listed(values)})" if values else ""
        raise TableError(
            f"{name}: column {column.name!r} has {len(values)} different values{some}, "
            "where two classes are needed"
        )
    if isinstance(column.dtype, pandas.CategoricalDtype):
        values = [value for value in column.cat.categories if value in values]
    else:
        values.sort(key=lambda value: (str(type(value)), value))
    first, second = map(str, values)
    return (first, second), (column == values[1]).to_numpy(dtype=np.int64)


def _features(name: str, frame: Any, target: Any) -> tuple[list[Any], list[str]]:
    """The numeric columns that vary, and a sentence for each kind of column that is left out."""
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    features, constant, other, missing = [], [], [], {}
    for feature in frame.columns:
        if feature == target:
            continue
        column = frame[feature]
        if not is_numeric_dtype(column.dtype) or is_bool_dtype(column.dtype):
            other.append(feature)
            continue
        numbers = _numbers(column)
        absent = int(np.count_nonzero(~np.isfinite(numbers)))
        if absent:
            missing[feature] = absent
        elif numbers.min() == numbers.max():
            constant.append(feature)
        else:
            features.append(feature)
    if missing:
        where = _listed(f"{count} in {feature!r}" for feature, count in missing.items())
        raise TableError(
            f"{name} has values that are missing or not finite ({where}, of {len(frame)} rows); "
            "leave those rows or columns out, or fill them in"
        )
    if not features:
        raise TableError(f"{name} has no numeric column that varies, beside its target {target!r}")
    left_out = [("not numeric", other), ("constant", constant)]
    return features, [f"left out, {why}: {_listed(names)}" for why, names in left_out if names]


def _numbers(column: Any) -> NDArray[np.float64]:
    numbers: NDArray[np.float64] = column.to_numpy(dtype=np.float64, na_value=np.nan)
    return numbers


def _listed(names: Iterable[Any]) -> str:
    """The first few of them, and how many more."""
    texts = [str(name) for name in names]
    more = f" and {len(texts) - _FEW} more" if len(texts) > _FEW else ""
    return ", ".join(texts[:_FEW]) + more
