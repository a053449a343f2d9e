"""A table of OpenML by its id: from openml.org, or from an existing openml cache.

openml_table(720, work=Path("openml_data/.openml"), cache=Path("~/.cache/openml").expanduser())
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.parsers.expat import ExpatError

from reloop.conf.mistakes import RunError, one_line

from ..settings import DATASETS
from .library import library
from .table import Source, Table, TableError

_OML = "{http://openml.org/openml}"
# Without these the package uses the network.
_REQUIRED_FIELDS = {"id", "name", "version", "format", "url"}
_SENTENCE_LENGTH = 160  # characters of a description in the notes


def openml_table(openml_id: int, work: Path, cache: Path | None = None) -> Table:
    """The numeric features and the two classes of OpenML's default target.

    A complete copy in `cache` is copied into `work` and read there, without network access;
    otherwise the openml package downloads the table into `work`, unless it is there already.

    Raises RunError if it cannot be fetched (no network, no such id, an altered copy), TableError if
    it cannot be used; `work` then holds only what a second attempt can start from.
    """
    copy = _complete_copy(openml_id, cache) if cache is not None else None
    root = work / ("copied" if copy else "downloaded")
    with library(root, parquet=copy is not None and copy.suffix == ".pq") as openml:
        folder = Path(openml.config.get_cache_directory()) / "datasets" / str(openml_id)
        if copy is not None:
            _copy(copy, folder)
        elif not _is_complete(folder):
            shutil.rmtree(folder, ignore_errors=True)
        _remove_pickles(folder)
        try:
            dataset = _dataset(openml, openml_id, cache)
            frame, target = _frame(dataset)
            return Table.from_frame(dataset.name, frame, target, _origin(dataset, copy))
        except TableError as error:
            raise TableError(f"{openml_id}: {error}") from None
        finally:
            _remove_pickles(folder)
            if copy is not None:
                shutil.rmtree(root, ignore_errors=True)


def _complete_copy(openml_id: int, cache: Path) -> Path | None:
    """The data file of a table's folder in a cache, if the folder has all that the package needs;
    else None. RunError if the file contradicts its description."""
    folder = cache / DATASETS / str(openml_id)
    description = _description(folder)
    arff = folder / "dataset.arff"
    if description is None or not description.keys() >= _REQUIRED_FIELDS:
        return None
    if description["id"] != str(openml_id):
        raise RunError(f"{folder} is damaged: its description.xml is of table {description['id']}")
    if arff.is_file():
        if description.get("md5_checksum") not in (None, _md5(arff)):
            raise RunError(
                f"{arff} is altered or incomplete: its md5 is not the one in its description.xml; "
                "repair the cache, or leave cache_dir= out to download the table"
            )
        return arff
    parquet = [folder / f"dataset_{openml_id}.pq", folder / "dataset.pq"]
    paths = [path for path in parquet if path.is_file() and "parquet_url" in description]
    return paths[0] if paths else None


def _copy(data: Path, folder: Path) -> None:
    """Copies only what is read: a cache also holds pickles, which could run code."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for path in (data.with_name("description.xml"), data):
        shutil.copyfile(path, folder / path.name)


def _is_complete(folder: Path) -> bool:
    """Whether an earlier download is complete: the package does not check."""
    description, arff = _description(folder), folder / "dataset.arff"
    return (
        description is not None and arff.is_file() and description.get("md5_checksum") == _md5(arff)
    )


def _description(folder: Path) -> dict[str, str] | None:
    """The fields of description.xml; None if it is missing or cannot be read."""
    try:
        root = ElementTree.parse(folder / "description.xml").getroot()
    except (OSError, ElementTree.ParseError):
        return None
    return {field.tag.removeprefix(_OML): (field.text or "").strip() for field in root}


def _remove_pickles(folder: Path) -> None:
    """The package would read pickles without checking the data, and fail on an incomplete one."""
    for path in folder.glob("*.pkl*"):
        path.unlink()


def _dataset(openml: Any, openml_id: int, cache: Path | None) -> Any:
    """The package's data set, with its data on disk; RunError, one line, in place of its errors."""
    from requests.exceptions import RequestException

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
    copied = f"copied from a local openml cache: {_first_sentence(dataset)}"
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


def _first_sentence(dataset: Any) -> str:
    """The first sentence of the description, in which a rebuilt table says that it is one."""
    text = " ".join((dataset.description or "it has no description").split())
    return text.split(". ")[0][:_SENTENCE_LENGTH].rstrip(".")


def _md5(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "md5").hexdigest()
