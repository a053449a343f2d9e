"""Tables of OpenML, by their ids, from openml.org or from an existing openml cache; these and one's
own files, checked and stored in a folder.

print(fetch(FetchSettings(tables=(720,), cache_dir="/data/openml")))
"""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path
from typing import Any
from xml.parsers.expat import ExpatError

from filelock import FileLock, Timeout
from tqdm import tqdm

from looplab.conf.mistakes import RunError, one_line

from ..settings import DATASETS, FetchSettings, table_key
from .csv_file import csv_table
from .table import (
    Source,
    Table,
    TableError,
    digest_of,
    find_table,
    list_names,
    read_table,
    write_table,
)

SERVER = "https://www.openml.org/api/v1/xml"
_TRIES = 2  # a second apart, before a request counts as failed
_MOST_NAMES = 20  # of features that a description lists
_SENTENCE_LENGTH = 160  # characters of a description in the notes


def fetch(settings: FetchSettings) -> str:
    """Store every missing or damaged table in data_dir; returns a description of each table.

    Raises RunError for the first that cannot be fetched or used; those before it stay.
    """
    folder = Path(settings.data_dir)
    folder.mkdir(parents=True, exist_ok=True)
    descriptions, count = [], 0
    try:
        lock = FileLock(folder / ".lock").acquire(timeout=0)
    except Timeout:
        raise RunError(f"{folder} is being filled by another process") from None
    with lock, tqdm(settings.tables, desc="tables", leave=False, disable=None) as bar:
        for key in bar:
            bar.set_postfix_str(str(key))
            try:
                table, is_new = _get_table(folder, key, settings)
            except TableError as error:
                raise RunError(f"tables: {error}") from None
            count += is_new
            descriptions.append("\n".join(description(table)))
    total = f"{folder}: {len(descriptions)} tables, {count} of them fetched now"
    return "\n".join([*descriptions, "", total])


def description(table: Table) -> list[str]:
    """Lines on the content of a table, and below them its remarks."""
    rows = len(table.ys)
    shares = ", ".join(
        f"{name} {count:,} ({count / rows:.1%})"
        for name, count in zip(table.classes, table.counts, strict=True)
    )
    first = f"{table.label}: {rows:,} rows, {len(table.features)} features; classes {shares}"
    used = f"target {table.source.target}; features {list_names(table.features, _MOST_NAMES)}"
    return [first, *(f"  {remark}" for remark in [used, *table.remarks])]


def _get_table(folder: Path, key: int | str, settings: FetchSettings) -> tuple[Table, bool]:
    """A table that is in the folder afterwards, and whether it was fetched now. Raises TableError
    if the folder holds another table of the same name."""
    copy = _stored_copy(folder, table_key(key))
    if isinstance(key, int):
        if copy is not None:
            return copy, False
        cache = Path(settings.cache_dir) if settings.cache_dir is not None else None
        table = openml_table(key, folder / ".openml", cache)
    else:
        table = csv_table(Path(key), settings.target)
        if copy is not None and copy.source == table.source:  # its file and target
            return copy, False
    new, other = table.source, _stored_copy(folder, table.name)
    if other and (new.openml_id, new.url) != (other.source.openml_id, other.source.url):
        raise TableError(
            f"{new.url} would take the place of {other.source.url}, which has the same name, "
            f"{table.name!r}; give it another, or another data_dir"
        )
    write_table(folder, table)
    return table, True


def _stored_copy(folder: Path, name: int | str) -> Table | None:
    """The undamaged copy of this table in the folder; None if there is none."""
    try:
        return None if find_table(folder, name) is None else read_table(folder, name)
    except RunError:
        return None  # damaged: it is fetched again


def openml_table(openml_id: int, work: Path, cache: Path | None = None) -> Table:
    """The numeric features and the two classes of OpenML's default target.

    What `cache` holds of the table is copied into the folder `work` and read there; what is missing
    the openml package downloads into it. The cache is only read, and `work` is removed.

    Raises RunError if the table cannot be fetched (no network, no such id, an altered copy),
    TableError if it cannot be used.
    """
    shutil.rmtree(work, ignore_errors=True)  # of a killed process
    work.mkdir(parents=True)
    try:
        copy = _copy(openml_id, cache, work) if cache is not None else None
        parquet = copy is not None and copy.suffix == ".pq"
        dataset = _dataset(openml_id, work, cache, parquet=parquet)
        md5 = None if parquet else dataset.md5_checksum
        if copy is not None and md5 and md5 != digest_of(copy, "md5"):
            raise RunError(
                f"{copy} is altered or incomplete: its md5 is not the one in its description.xml; "
                "repair the cache, or leave cache_dir= out to download the table"
            )
        frame, target = _frame(dataset)
        return Table.from_frame(dataset.name, frame, target, _origin(dataset, copy))
    except TableError as error:
        raise TableError(f"{openml_id}: {error}") from None
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _copy(openml_id: int, cache: Path, work: Path) -> Path | None:
    """Copy only what is read: a cache also holds pickles, which could run code. Returns the data
    file that it holds, if it does."""
    source, folder = (root / DATASETS / str(openml_id) for root in (cache, work))
    folder.mkdir(parents=True)
    data = [source / name for name in ("dataset.arff", f"dataset_{openml_id}.pq", "dataset.pq")]
    for path in (source / "description.xml", *data):
        if path.is_file():
            shutil.copyfile(path, folder / path.name)
    return next((path for path in data if path.is_file()), None)


def _dataset(openml_id: int, work: Path, cache: Path | None, *, parquet: bool) -> Any:
    """The package's data set, with its data in `work`: as ARFF, of which OpenML gives a checksum,
    unless the cache holds `parquet`. RunError, one line, in place of the package's errors."""
    os.environ["OPENML_SKIP_PARQUET"] = str(not parquet)
    import openml
    from requests.exceptions import RequestException

    openml.config.server, openml.config.apikey = SERVER, ""
    openml.config.set_root_cache_directory(work.resolve())
    openml.config.set_retry_policy("human", _TRIES)
    logging.getLogger("openml").setLevel(logging.CRITICAL)
    try:
        return openml.datasets.get_dataset(openml_id, download_data=True)
    except RequestException as error:
        cache_hint = f"; {cache} has no complete copy of it" if cache is not None else ""
        raise RunError(
            f"table {openml_id} is not here{cache_hint}, and www.openml.org does not answer "
            f"({type(error).__name__}): where there is a network, `python -m openml_eval "
            f"action=fetch tables={openml_id}` fetches it; cache_dir= names an openml cache"
        ) from None
    except openml.exceptions.OpenMLHashException:
        raise RunError(
            f"table {openml_id} was downloaded altered or incomplete (its md5 is not the one that "
            "OpenML gives); nothing was kept: try again"
        ) from None
    except (openml.exceptions.PyOpenMLError, ExpatError, KeyError, ValueError) as error:
        # The last three: for an invalid description, or one that the package does not accept.
        problem = one_line(error)
        raise RunError(
            f"table {openml_id} cannot be fetched from OpenML: {problem[:300]}"
        ) from None


def _frame(dataset: Any) -> tuple[Any, str]:
    """All columns, and the name of the target among them."""
    try:
        frame, _, categorical, names = dataset.get_data()
    except Exception as error:
        # Parsers and the package raise many kinds for a file that they cannot read.
        problem = one_line(error)
        raise TableError(f"{dataset.name}'s file cannot be read: {problem[:300]}") from None
    target = dataset.default_target_attribute
    if target not in names:
        raise TableError(f"{dataset.name} has no target of its own (default target: {target!r})")
    if not categorical[names.index(target)]:
        raise TableError(
            f"{dataset.name}'s target {target!r} is not categorical; "
            "save the table as a CSV file with two classes and name that instead"
        )
    return frame, target


def _origin(dataset: Any, copy: Path | None) -> Source:
    # In the first sentence of its description a rebuilt table says that it is one.
    text = " ".join((dataset.description or "it has no description").split())
    sentence = text.split(". ")[0][:_SENTENCE_LENGTH].rstrip(".")
    copied = f"copied from a local openml cache: {sentence}"
    return Source(
        openml_id=dataset.dataset_id,
        version=dataset.version,
        name=dataset.name,
        licence=dataset.licence,
        url=dataset.url,
        md5=dataset.md5_checksum,
        date=dataset.upload_date,
        notes=(copied,) if copy else (),
    )
