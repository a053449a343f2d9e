"""Tables from a server, by way of the openml package: once, and whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from looplab.conf.mistakes import RunError
from looplab.openml_eval.settings import FetchSettings
from looplab.openml_eval.tables.fetch import fetch, openml_table
from looplab.openml_eval.tables.table import read_table
from tests.openml_eval.conftest import Server
from tests.openml_eval.small_cache import arff, rows, write_data_set


def test_a_table_is_downloaded_once_checked_and_kept(server: Server, tmp_path: Path) -> None:
    server.texts = {7: arff(rows(60))}
    # It would have to be asked for elsewhere, and has no checksum.
    server.fields = {7: {"parquet_url": "http://192.0.2.1/dataset_7.pq"}}
    settings = FetchSettings((7,), str(tmp_path))
    assert "1 of them fetched now" in fetch(settings)
    assert server.asked == ["/api/v1/xml/data/7", "/7.arff"]
    table = read_table(tmp_path, 7)
    assert len(table.ys) == 60
    assert not any("copied" in note for note in table.source.notes)
    assert "0 of them fetched now" in fetch(settings)
    assert len(server.asked) == 2


def test_an_id_that_is_unknown_is_said(server: Server, tmp_path: Path) -> None:
    with pytest.raises(RunError) as refused:
        fetch(FetchSettings((999,), str(tmp_path)))
    assert str(refused.value).startswith("table 999 cannot be fetched from OpenML: ")
    assert "Unknown dataset" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_description_that_is_none_is_said(server: Server, tmp_path: Path) -> None:
    server.texts, server.fields = {7: arff(rows(60))}, {7: {"version": "new"}}
    with pytest.raises(RunError, match="table 7 cannot be fetched from OpenML"):
        fetch(FetchSettings((7,), str(tmp_path)))


def test_a_download_cut_short_is_refused_and_the_next_time_is_whole(
    server: Server, tmp_path: Path
) -> None:
    text = arff(rows(60))
    server.texts, server.sent = {7: text}, {7: text[:-40]}
    settings = FetchSettings((7,), str(tmp_path))
    with pytest.raises(RunError, match="table 7 was downloaded altered or incomplete"):
        fetch(settings)
    assert not [*tmp_path.glob("*.npz"), *tmp_path.rglob("dataset.arff")]
    server.sent = {}
    fetch(settings)
    assert len(read_table(tmp_path, 7).ys) == 60


def test_what_a_cache_lacks_is_downloaded(server: Server, tmp_path: Path) -> None:
    text = arff(rows(60))
    server.texts = {7: text}
    folder = write_data_set(tmp_path / "cache", 7, text, url=f"{server.url}/7.arff")
    (folder / "dataset.arff").unlink()
    table = openml_table(7, tmp_path / "work", tmp_path / "cache")
    assert len(table.ys) == 60
    assert table.source.notes == ("left out, not numeric: colour",)
