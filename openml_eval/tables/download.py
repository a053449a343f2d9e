"""A table of OpenML by its id: from openml.org, or from an openml cache that is there already.

openml_table(720, work=Path("openml_data/.openml"), cache=Path("~/.cache/openml").expanduser())
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.parsers.expat import ExpatError

from reloop.conf.mistakes import RunError, one_line

from ..settings import DATASETS
from .library import library
from .table import Table, TableError, source

_OML = "{http://openml.org/openml}"
_NEEDED = {"id", "name", "version", "format", "url"}  # or the package asks the network
_SENTENCE = 160  # characters of a description that are shown


def openml_table(openml_id: int, work: Path, cache: Path | None = None) -> Table:
    """The numeric features and the two classes of OpenML's default target.

    A copy in `cache`, if it is complete, is copied into `work` and read there, without any network;
    otherwise the openml package downloads the table into `work`, unless that was done before.

    Raises RunError where it cannot be had (no network, no such id, an altered copy), TableError
    where it cannot be used; in both cases nothing is left but what a next time can begin with.
    """
    given = _complete_copy(openml_id, cache) if cache is not None else None
    root = work / ("copied" if given else "downloaded")
    with library(root, parquet=given is not None and given.suffix == ".pq") as openml:
        folder = Path(openml.config.get_cache_directory()) / "datasets" / str(openml_id)
        if given is not None:
            _copy(given, folder)
        elif not _whole(folder):
            shutil.rmtree(folder, ignore_errors=True)
        _forget_pickles(folder)
        try:
            dataset = _dataset(openml, openml_id, cache)
            frame, target = _frame(dataset)
            return Table.from_frame(dataset.name, frame, target, _origin(dataset, given))
        except TableError as error:
            raise TableError(f"{openml_id}: {error}") from None
        finally:
            _forget_pickles(folder)
            if given is not None:
                shutil.rmtree(root, ignore_errors=True)


def _complete_copy(openml_id: int, cache: Path) -> Path | None:
    """The data file of a table's folder in a cache, with all beside it that the package needs.
    RunError for one that is not what its description says."""
    folder = cache / DATASETS / str(openml_id)
    description = _description(folder)
    arff = folder / "dataset.arff"
    if description is None or not description.keys() >= _NEEDED:
        return None
    if description["id"] != str(openml_id):
        raise RunError(f"{folder} is damaged: its description.xml is of table {description['id']}")
    if arff.is_file():
        if description.get("md5_checksum") not in (None, _md5(arff)):
            raise RunError(
                f"{arff} is altered or half: its md5 is not the one in its description.xml; "
                "mend the cache, or leave cache_dir= out to download the table"
            )
        return arff
    parquet = [folder / f"dataset_{openml_id}.pq", folder / "dataset.pq"]
    here = [path for path in parquet if path.is_file() and "parquet_url" in description]
    return here[0] if here else None


def _copy(data: Path, folder: Path) -> None:
    """Only what is read: a cache also holds pickles, which could run code."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for path in (data.with_name("description.xml"), data):
        shutil.copyfile(path, folder / path.name)


def _whole(folder: Path) -> bool:
    """Whether what was downloaded before is complete: the package itself never looks."""
    description, arff = _description(folder), folder / "dataset.arff"
    return (
        description is not None and arff.is_file() and description.get("md5_checksum") == _md5(arff)
    )


def _description(folder: Path) -> dict[str, str] | None:
    """The fields of description.xml; None without one that can be read."""
    try:
        root = ElementTree.parse(folder / "description.xml").getroot()
    except (OSError, ElementTree.ParseError):
        return None
    return {field.tag.removeprefix(_OML): (field.text or "").strip() for field in root}


def _forget_pickles(folder: Path) -> None:
    """The package would read them back without a look at the data; a half one is an error."""
    for path in folder.glob("*.pkl*"):
        path.unlink()


def _dataset(openml: Any, openml_id: int, cache: Path | None) -> Any:
    """The package's data set, its data on disk; its mistakes as one line."""
    from requests.exceptions import RequestException

    try:
        return openml.datasets.get_dataset(openml_id, download_data=True)
    except RequestException as error:
        where = f"; {cache} has no complete copy of it" if cache is not None else ""
        raise RunError(
            f"table {openml_id} is not here{where}, and www.openml.org does not answer "
            f"({type(error).__name__}): where there is a network, `python -m openml_eval "
            f"action=fetch tables=[{openml_id}]` fetches it; cache_dir= names an openml cache"
        ) from None
    except openml.exceptions.OpenMLHashException:
        raise RunError(
            f"table {openml_id} came altered or half (its md5 is not the one that OpenML names); "
            "nothing was kept: try again"
        ) from None
    except (openml.exceptions.PyOpenMLError, ExpatError, KeyError, ValueError) as error:
        # The last three for a description that is none, or that the package does not take.
        problem = one_line(error)
        raise RunError(f"table {openml_id} is not to be had from OpenML: {problem[:300]}") from None


def _frame(dataset: Any) -> tuple[Any, str]:
    """All columns, and the name of the target among them."""
    try:
        frame, _, categorical, names = dataset.get_data()
    except Exception as error:
        # Parsers and the package raise all kinds for a file that they cannot read.
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


def _origin(dataset: Any, given: Path | None) -> Mapping[str, Any]:
    notes = [] if given is None else [f"copied from a local openml cache: {_sentence(dataset)}"]
    return source(
        notes,
        openml_id=dataset.dataset_id,
        version=dataset.version,
        name=dataset.name,
        licence=dataset.licence,
        url=dataset.url,
        md5=dataset.md5_checksum,
        date=dataset.upload_date,
    )


def _sentence(dataset: Any) -> str:
    """The first sentence of the description: whoever rebuilt a table says so there."""
    text = " ".join((dataset.description or "it has no description").split())
    return text.split(". ")[0][:_SENTENCE].rstrip(".")


def _md5(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "md5").hexdigest()
