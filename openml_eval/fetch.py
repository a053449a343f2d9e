"""Tables of OpenML, by their ids, from openml.org or from a cache of openml-python; these and one's
own files, checked and stored in a folder.

print(fetch(FetchSettings(tables=(720,), cache_dir="/data/openml")))
"""

import gzip
import hashlib
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import requests
from tqdm import tqdm

from looplab.conf.mistakes import RunError, one_line

from .settings import DATASETS, FetchSettings, table_name
from .tables import Source, Table, list_names, read_table, write_table

SERVER = "https://www.openml.org/api/v1/xml/data"
_SECONDS = 60  # without an answer
_NEEDED = {"name", "version", "url", "md5_checksum"}  # of a description
_MOST_NAMES = 20  # of features that are printed
_SENTENCE_LENGTH = 160  # characters of a description in the notes
_MISSING = ["", "?", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"]  # in a column of numbers


def fetch(settings: FetchSettings) -> str:
    """Store every missing or damaged table in data_dir; returns a description of each table.

    Raises RunError for the first that cannot be fetched or used; those before it stay.
    """
    folder = Path(settings.data_dir)
    folder.mkdir(parents=True, exist_ok=True)
    lines, count = list[str](), 0
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
    total = f"{folder}: {len(settings.tables)} tables, {count} of them fetched now"
    return "\n".join([*lines, "", total])


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


def _stored(folder: Path, key: int | str) -> Table | None:
    """The undamaged copy of this table in the folder; None if there is none."""
    with suppress(RunError):
        return read_table(folder, key)
    return None


def _check_place(folder: Path, table: Table) -> None:
    """Raises RunError if the folder holds another table of the same name."""
    other, new = _stored(folder, table.name), table.source
    if other and (new.openml_id, new.url) != (other.source.openml_id, other.source.url):
        raise RunError(
            f"{new.url} would take the place of {other.source.url}, which has the same name, "
            f"{table.name!r}; give it another, or another data_dir"
        )


def openml_table(openml_id: int, cached: Path | None = None) -> Table:
    """The numeric features and the two classes of OpenML's default target.

    What the folder `cached` of a cache holds, description.xml and dataset.arff, is read there, and
    nothing else of it: openml-python keeps pickles beside. What is missing is downloaded. A file
    without the checksum of the description is not used.

    Raises RunError if the table cannot be fetched (no network, no such id, an altered copy) or
    used.
    """
    fields, left_out = _description(openml_id, cached)
    name = fields["name"]
    where, content = _content(openml_id, fields["url"], cached, "dataset.arff")
    is_copy = where != fields["url"]
    if hashlib.md5(content).hexdigest() != fields["md5_checksum"]:
        raise RunError(
            f"{where} is altered or incomplete, its md5 is not the one that OpenML gives: "
            f"{'repair the cache, or leave cache_dir= out' if is_copy else 'try again'}"
        )
    frame = _frame(name, content).drop(columns=left_out, errors="ignore")
    # In the first sentence of its description a rebuilt table says that it is one.
    text = " ".join(fields.get("description", "it has no description").split())
    sentence = text.split(". ")[0][:_SENTENCE_LENGTH].rstrip(".")
    source = Source(
        openml_id=openml_id,
        version=int(fields["version"]),
        name=name,
        licence=fields.get("licence"),
        url=fields["url"],
        md5=fields["md5_checksum"],
        date=fields.get("upload_date"),
        notes=(f"copied from a local openml cache: {sentence}",) if is_copy else (),
    )
    target = fields.get("default_target_attribute", "")  # some have none
    return Table.from_frame(name, frame, target, source)


def _description(openml_id: int, cached: Path | None) -> tuple[dict[str, str], list[str]]:
    """The fields of OpenML's description, and the columns that are no features by it."""
    where, content = _content(openml_id, f"{SERVER}/{openml_id}", cached, "description.xml")
    with suppress(ElementTree.ParseError):
        found = [
            (each.tag.rpartition("}")[2], each.text)
            for each in ElementTree.fromstring(content)
            if each.text
        ]
        fields = dict(found)
        if fields.keys() >= _NEEDED:
            not_used = ("row_id_attribute", "ignore_attribute")
            return fields, [text for tag, text in found if tag in not_used]
    raise RunError(f"{where} is no complete description of table {openml_id}")


def _content(openml_id: int, url: str, cached: Path | None, name: str) -> tuple[str, bytes]:
    """The path of a file in the cache, or else the url; and its content."""
    if cached and (path := cached / name).is_file():
        return str(path), path.read_bytes()
    try:
        answer = requests.get(url, timeout=_SECONDS)
        answer.raise_for_status()
        return url, answer.content
    except requests.HTTPError:
        raise RunError(f"OpenML has no table {openml_id} (HTTP {answer.status_code})") from None
    except requests.RequestException as error:
        hint = f"; {cached} has no complete copy of it" if cached else ""
        raise RunError(
            f"table {openml_id} is not here{hint}, and www.openml.org does not answer "
            f"({type(error).__name__}): where there is a network, `python -m openml_eval "
            f"action=fetch tables={openml_id}` fetches it; cache_dir= names an openml cache"
        ) from None


def _frame(name: str, content: bytes) -> Any:
    """The columns of an ARFF file as a pandas DataFrame, nominal ones as categories."""
    import arff
    import pandas

    try:
        document = arff.loads(content.decode())
    except (arff.ArffException, ValueError) as error:
        raise RunError(f"{name}'s file cannot be read: {one_line(error)[:300]}") from None
    kinds = dict(document["attributes"])
    frame = pandas.DataFrame(document["data"], columns=[*kinds])
    nominal = {each: kind for each, kind in kinds.items() if isinstance(kind, list)}
    return frame.astype({each: pandas.CategoricalDtype(kind) for each, kind in nominal.items()})


def csv_table(path: Path, target: str | None = None) -> Table:
    """The table in a file with a header line, of values between commas, semicolons or tabs, gzipped
    or not, named after the file; `target` is its column of classes, by default the last one, in
    which only an empty field and "?" are missing, elsewhere NA and the like too.

    Raises RunError if it cannot be read or used (see Table.from_frame).
    """
    from pandas import RangeIndex, read_csv

    opened = gzip.open if path.name.endswith(".gz") else open
    try:
        with opened(path, "rt", encoding="utf-8") as file:
            separator = max(",;\t", key=file.readline().count)
        read = partial(read_csv, path, sep=separator, skipinitialspace=True)
        names = [*read(nrows=0).columns]
        classes = names[-1] if target is None else target
        missing = {name: _MISSING[:2] if name == classes else _MISSING for name in names}
        frame = read(keep_default_na=False, na_values=missing)
    except (ValueError, OSError, EOFError) as error:
        raise RunError(f"{path} cannot be read: {one_line(error)}") from None
    notes: tuple[str, ...] = ()
    if not isinstance(frame.index, RangeIndex):  # more values in a row than in the header
        notes = ("left out, row names: those before the first column",)
    md5 = hashlib.md5(path.read_bytes()).hexdigest()
    source = Source(name=table_name(path), url=path.resolve().as_uri(), md5=md5, notes=notes)
    return Table.from_frame(table_name(path), frame, target, source)
