"""Tables of OpenML, by their ids, from openml.org or from a cache of openml-python; these and one's
own files, checked and stored in a folder.

print(fetch(FetchSettings(tables=(720,), cache_dir="/data/openml")))
"""

import hashlib
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partialmethod
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pandas
from tqdm import tqdm

from looplab.conf.mistakes import RunError, one_line
from looplab.training.run_folder.files import list_names

from .csv_file import csv_table
from .settings import DATASETS, FetchSettings, table_name
from .tables import Source, Table, read_table, write_table

SERVER = "https://www.openml.org/api/v1/xml"
_SECONDS = 60  # without an answer
_ATTEMPTS = 2  # a second apart
_NO_DATABASE = 107  # the code with which OpenML answers while it is down
_MOST_NAMES = 20  # of features that are printed
_SENTENCE_LENGTH = 160  # characters of a description in the notes


def fetch(settings: FetchSettings) -> str:
    """Store every missing or damaged table in data_dir; returns a description of each table.

    Raises RunError for the first that cannot be fetched or used; those before it stay.
    """
    folder = Path(settings.data_dir)
    folder.mkdir(parents=True, exist_ok=True)
    lines: list[str] = []
    count = 0
    for key in tqdm(settings.tables, desc="tables", leave=False, disable=None):
        table = _stored(folder, table_name(key) if isinstance(key, str) else key)
        if isinstance(key, str):  # the file may have changed
            new = csv_table(Path(key), settings.target)
        else:
            cache = Path(settings.cache_dir, DATASETS, str(key)) if settings.cache_dir else None
            new = table or openml_table(key, cache)
        if table is None or table.source != new.source:
            _check_place(folder, new)
            write_table(folder, new)
            count += 1
        lines += description(new)
    lines += ["", f"{folder}: {len(settings.tables)} tables, {count} of them fetched now"]
    return "\n".join(lines)


def description(table: Table) -> list[str]:
    """Lines on the content of a table, and below them its remarks."""
    rows = len(table.ys)
    features = list_names(table.features, _MOST_NAMES)
    shares = []
    for name, count in zip(table.classes, table.counts, strict=True):
        shares.append(f"{name} {count:,} ({count / rows:.1%})")
    classes = ", ".join(shares)
    lines = [f"{table.label}: {rows:,} rows, {len(table.features)} features; classes {classes}"]
    lines.append(f"  target {table.source.target}; features {features}")
    return lines + [f"  {remark}" for remark in table.remarks]


def _stored(folder: Path, key: int | str) -> Table | None:
    """The undamaged copy of this table in the folder; None if there is none."""
    with suppress(RunError):
        return read_table(folder, key)
    return None


def _check_place(folder: Path, table: Table) -> None:
    """Raises RunError if the folder holds another table of the same name."""
    other = _stored(folder, table.name)
    new = table.source
    if other and (new.openml_id, new.url) != (other.source.openml_id, other.source.url):
        raise RunError(
            f"{new.url} would take the place of {other.source.url}, which has the same name, "
            f"{table.name!r}; give it another, or another data_dir"
        )


def openml_table(openml_id: int, cached: Path | None = None) -> Table:
    """The numeric features and the two classes of OpenML's default target, downloaded and checked
    by openml-python.

    Of a cache's folder `cached` the files description.xml and dataset.arff are read, and nothing
    else: openml-python keeps pickles beside them. What is missing there is downloaded. The client's
    own cache is a temporary folder of the system.

    Raises RunError if the table cannot be fetched (no network, no such id, an altered copy) or
    used.
    """
    with TemporaryDirectory(prefix="openml-") as cache, _client(cache) as openml:
        folder = Path(openml.config.get_cache_directory(), "datasets", str(openml_id))
        folder.mkdir(parents=True)
        for name in ("description.xml", "dataset.arff"):
            if cached and (cached / name).is_file():
                shutil.copyfile(cached / name, folder / name)
        # Asked before the client adds what is missing.
        is_copy = (folder / "dataset.arff").is_file()
        dataset = _dataset(openml, openml_id, cached)
        content = Path(dataset.data_file).read_bytes()
    if is_copy and hashlib.md5(content).hexdigest() != dataset.md5_checksum:  # else it is checked
        raise RunError(
            f"{cached}/dataset.arff is altered or incomplete, its md5 is not the one that OpenML "
            "gives: repair the cache, or leave cache_dir= out"
        )
    # One of these texts may list several names.
    texts = [dataset.row_id_attribute or ""] + (dataset.ignore_attribute or [])
    not_used = ",".join(texts).split(",")
    frame = _frame(dataset.name, content).drop(columns=not_used, errors="ignore")
    notes: tuple[str, ...] = ()
    if is_copy:
        # In the first sentence of its description a rebuilt table says that it is one.
        text = " ".join((dataset.description or "it has no description").split())
        sentence = text.split(". ")[0][:_SENTENCE_LENGTH].rstrip(".")
        notes = (f"copied from a local openml cache: {sentence}",)
    source = Source(
        openml_id=openml_id,
        version=dataset.version,
        name=dataset.name,
        licence=dataset.licence,
        url=dataset.url,
        md5=dataset.md5_checksum,
        date=dataset.upload_date,
        notes=notes,
    )
    target = dataset.default_target_attribute or ""  # some have none
    return Table.from_frame(dataset.name, frame, target, source)


@contextmanager
def _client(cache: str) -> Iterator[Any]:
    """The package openml, as long as this lasts with its files in the folder `cache` alone, without
    the user's settings and key, and with few attempts of limited time."""
    # Its import makes folders in the user's home, or fails where there is none.
    environment = dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "OPENML_CACHE_DIR"), cache)
    environment["OPENML_SKIP_PARQUET"] = "true"  # those files have no checksum
    with patch.dict(os.environ, environment):
        openml: Any = import_module("openml")
        # Two private names: tests/test_private_names.py fails where one is gone.
        session = openml._api_calls.requests.Session
        request = partialmethod(session.request, timeout=_SECONDS)
        settings = patch.multiple(
            openml.config,
            server=SERVER,
            apikey="",
            connection_n_retries=_ATTEMPTS,
            _root_cache_directory=Path(cache),
        )
        # The client warns of every answer that is not compressed.
        no_warning = patch.object(logging, "warning")
        with settings, no_warning, patch.object(session, "request", request):
            yield openml


def _dataset(openml: Any, openml_id: int, cached: Path | None) -> Any:
    """What openml-python has of a table, its file downloaded. Raises RunError if that fails."""
    try:
        return openml.datasets.get_dataset(
            openml_id,
            download_data=True,
            download_features_meta_data=False,  # it would be kept as a pickle, too
            download_qualities=False,
        )
    except openml.exceptions.OpenMLHashException:
        raise RunError(
            f"table {openml_id} arrives altered or incomplete, its md5 is not the one that OpenML "
            "gives: try again"
        ) from None
    except Exception as error:  # of requests, XML, or for what an answer lacks
        if isinstance(error, OSError) and error.errno is not None:  # of the disk
            raise
        # An answer of OpenML has a code; an error without one is of the network.
        if getattr(error, "code", _NO_DATABASE) != _NO_DATABASE:
            raise RunError(
                f"OpenML gives no table {openml_id} ({one_line(error)}); "
                "www.openml.org/search?type=data lists those that it has"
            ) from None
        hint = f"; {cached} has no complete copy of it" if cached else ""
        raise RunError(
            f"table {openml_id} is not here{hint}, and www.openml.org does not answer as it "
            f"should ({type(error).__name__}): where there is a network, `python -m openml_eval "
            f"action=fetch tables={openml_id}` fetches it; cache_dir= names an openml cache"
        ) from None


def _frame(table: str, content: bytes) -> Any:
    """The columns of an ARFF file as a pandas DataFrame, nominal ones as categories."""
    import arff

    try:
        document = arff.loads(content.decode())
    except (arff.ArffException, ValueError) as error:
        raise RunError(f"{table}'s file cannot be read: {one_line(error)[:300]}") from None
    names = [name for name, _ in document["attributes"]]
    nominal = {
        name: pandas.CategoricalDtype(kind)
        for name, kind in document["attributes"]
        if isinstance(kind, list)
    }
    return pandas.DataFrame(document["data"], columns=names).astype(nominal)
