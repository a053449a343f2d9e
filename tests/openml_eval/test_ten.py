"""The ten tables of the published experiment, where they are at hand: a folder `shared/data` in or
beside the project (or $OPENML_TABLES) with openml_cache and openml_manifest.json."""

import json
import os
from pathlib import Path

import pytest

from looplab.openml_eval.catalogue import TABLES
from looplab.openml_eval.fetch import fetch
from looplab.openml_eval.settings import FetchSettings
from looplab.openml_eval.tables import read_table
from tests.conftest import HOME
from tests.openml_eval.conftest import contents

PLACES = (HOME / "shared" / "data", HOME.parent / "shared" / "data")


@pytest.fixture(scope="module")
def data() -> Path:
    places = [Path(os.environ["OPENML_TABLES"])] if "OPENML_TABLES" in os.environ else PLACES
    for place in places:
        if (place / "openml_cache").is_dir() and (place / "openml_manifest.json").is_file():
            return place
    pytest.skip("the ten tables are not here: set OPENML_TABLES to a folder with openml_cache")


def test_they_are_as_listed_and_their_cache_stays_as_it_is(
    data: Path, tmp_path: Path, no_network: list[str]
) -> None:
    cache = data / "openml_cache"
    before = contents(cache)
    said = fetch(FetchSettings(data_dir=str(tmp_path), cache_dir=str(cache)))
    assert "10 tables, 10 of them fetched now" in said
    assert "not as expected" not in said
    assert "APPROXIMATE" in said
    listed = json.loads((data / "openml_manifest.json").read_text())
    assert {each["id"] for each in listed} == TABLES.keys()
    for each in listed:
        table, known = read_table(tmp_path, each["id"]), TABLES[each["id"]]
        assert table.name == each["name"] == known.name
        assert len(table.ys) == each["rows"] == known.rows
        assert list(table.features) == each["numeric_features"]
        assert len(table.features) == known.features
        assert dict(zip(table.classes, table.counts, strict=True)) == each["class_counts"]
        assert table.source.target == each["target"]
        assert table.source.md5 == each["md5"]
    assert no_network == []
    assert contents(cache) == before
