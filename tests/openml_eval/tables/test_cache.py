"""An openml cache that is there already: read through the package, without a network, unchanged."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pandas
import pytest

from looplab.conf.mistakes import RunError
from looplab.openml_eval.settings import FetchSettings
from looplab.openml_eval.tables.fetch import fetch, openml_table
from looplab.openml_eval.tables.table import TableError, read_table
from tests.openml_eval.small_cache import HEADER, arff, contents, rows, write_data_set


def test_a_complete_copy_needs_no_network_and_stays_as_it_is(
    tmp_path: Path, no_network: list[str]
) -> None:
    cache, folder = tmp_path / "cache", tmp_path / "data"
    write_data_set(cache, 7, arff(rows(60)))
    before = contents(cache)
    said = fetch(FetchSettings((7,), str(folder), str(cache)))
    assert "7 small7: 60 rows, 2 features; classes yes 20 (33.3%), no 40 (66.7%)" in said
    assert "left out, not numeric: colour" in said
    assert "copied from a local openml cache: Made by a test" in said
    assert f"{folder}: 1 tables, 1 of them fetched now" in said
    table = read_table(folder, 7)
    assert table.features == ("width", "height")
    np.testing.assert_array_equal(table.xs[:, 1], [(-1) ** i * i for i in range(60)])
    np.testing.assert_array_equal(table.ys, [1 if i % 3 else 0 for i in range(60)])
    origin = table.source
    assert (origin.openml_id, origin.version) == (7, 3)
    assert (origin.name, origin.target) == ("small7", "label")
    assert (origin.licence, origin.date) == ("Public", "2014-04-06T23:21:11")
    assert no_network == []
    assert contents(cache) == before
    # Neither the copy nor pickles.
    assert sorted(os.listdir(folder)) == [".lock", "small7.json", "small7.npz"]


def test_a_pickle_in_a_cache_is_never_loaded(tmp_path: Path, no_network: list[str]) -> None:
    class Harm:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(tmp_path / "harm"),)

    folder = write_data_set(tmp_path / "cache", 7, arff(rows(60)))
    for name in ("dataset.pkl.py3", "features.xml.pkl", "qualities.xml.pkl"):
        (folder / name).write_bytes(pickle.dumps(Harm()))
    # One that came into our own folder between two commands, too.
    ours = tmp_path / "work" / "org/openml/www/datasets/7"
    ours.mkdir(parents=True)
    (ours / "dataset.pkl.py3").write_bytes(pickle.dumps(Harm()))
    assert len(openml_table(7, tmp_path / "work", tmp_path / "cache").ys) == 60
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize("name", ["dataset_7.pq", "dataset.pq"])
def test_a_cache_that_holds_parquet_serves_as_well(
    name: str, tmp_path: Path, no_network: list[str]
) -> None:
    cache = tmp_path / "cache"
    parquet_url = "https://data.openml.org/datasets/7/dataset_7.pq"
    folder = write_data_set(cache, 7, arff(rows(60)), parquet_url=parquet_url)
    (folder / "dataset.arff").unlink()
    label = pandas.Categorical(["yes", "no", "no"] * 20, categories=["yes", "no"])
    frame = pandas.DataFrame({"width": np.arange(60.0), "label": label})
    frame.to_parquet(folder / name)
    before = contents(cache)
    table = openml_table(7, tmp_path / "work", cache)
    assert (table.features, table.classes, table.counts) == (("width",), ("yes", "no"), (20, 40))
    assert no_network == []
    assert contents(cache) == before
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(TableError, match="7: small7's file cannot be read"):
        openml_table(7, tmp_path / "work", cache)


def test_an_altered_copy_is_refused_with_its_path(tmp_path: Path, no_network: list[str]) -> None:
    text = arff(rows(60))
    folder = write_data_set(tmp_path / "cache", 7, text)
    (folder / "dataset.arff").write_text(text[: text.rindex("\n", 0, -1) + 1])  # a row less
    with pytest.raises(RunError) as refused:
        openml_table(7, tmp_path / "work", tmp_path / "cache")
    assert str(refused.value).startswith(f"{folder / 'dataset.arff'} is altered or incomplete")
    assert "leave cache_dir= out" in str(refused.value)
    assert no_network == []


@pytest.mark.parametrize("left", [[], ["dataset.arff"], ["description.xml"], ["half"]])
def test_without_network_and_complete_copy_a_line_says_what_fetches_it(
    left: list[str], tmp_path: Path, no_network: list[str]
) -> None:
    cache, folder = tmp_path / "cache", tmp_path / "data"
    kept = write_data_set(cache, 7, arff(rows(60)))
    words = (kept / "description.xml").read_text()
    if left == ["half"]:
        (kept / "description.xml").write_text(words[:100])
    else:
        for path in kept.iterdir():
            if path.name not in left:
                path.unlink()
    before = contents(cache)
    with pytest.raises(RunError) as refused:
        fetch(FetchSettings((7,), str(folder), str(cache)))
    said = str(refused.value)
    assert said.startswith(f"table 7 is not here; {cache} has no complete copy of it, and www.op")
    assert "`python -m openml_eval action=fetch tables=7` fetches it" in said
    assert "\n" not in said
    assert no_network
    assert contents(cache) == before
    assert {path.name for path in folder.iterdir()} == {".lock"}


_NO_TARGET = "has no target of its own (default target: None)"


@pytest.mark.parametrize(
    ("text", "target", "said"),
    [
        (arff(rows(60)), None, _NO_TARGET),
        (arff(rows(60)), "price", "has no target of its own (default target: 'price')"),
        (arff(rows(60)), "colour,label", "(default target: 'colour,label')"),
        (arff(rows(60)), "height", "small7's target 'height' is not categorical"),
        (
            arff(["1,red,2,yes", *rows(60), "1,green,5,no"]),
            "colour",
            "column 'colour' has 3 different values",
        ),
        (arff([line.replace("yes", "no") for line in rows(60)]), "label", "has 1 different"),
        (arff([*rows(60), "?,red,3,yes"]), "label", "missing or not finite (1 in 'width', of 61"),
        (arff([*rows(60), "1,red,3,?"]), "label", "1 of 61 rows have no class"),
        (arff(rows(40)), "label", "small7 has 40 rows, and a prompt takes 41"),
        (arff([*rows(60), "1,red"]), "label", "small7's file cannot be read"),
        (arff([*rows(60), "1,purple,3,yes"]), "label", "small7's file cannot be read"),
        (HEADER, "label", "small7"),
    ],
)
def test_a_data_set_that_is_no_table_is_refused_and_leaves_no_table(
    text: str, target: str | None, said: str, tmp_path: Path, no_network: list[str]
) -> None:
    cache, folder = tmp_path / "cache", tmp_path / "data"
    write_data_set(cache, 6, arff(rows(60)))
    write_data_set(cache, 7, text, target)
    with pytest.raises(RunError) as refused:
        fetch(FetchSettings((6, 7), str(folder), str(cache)))
    assert str(refused.value).startswith("tables: 7: small7")
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    assert no_network == []
    assert sorted(path.name for path in folder.glob("*.*")) == [
        ".lock",
        *("small6.json", "small6.npz"),  # what was there before the mistake stays
    ]


def test_constant_features_are_left_out_and_named(tmp_path: Path, no_network: list[str]) -> None:
    lines = [line.split(",", 1)[1] for line in rows(60)]
    write_data_set(tmp_path / "cache", 7, arff([f"4,{line}" for line in lines]))
    table = openml_table(7, tmp_path / "work", tmp_path / "cache")
    assert table.features == ("height",)
    assert "left out, constant: width" in table.source.notes
