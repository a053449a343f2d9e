"""The command: what is there stays, an interrupted one goes on, one's own files join."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

from looplab.conf.mistakes import RunError
from looplab.openml_eval.__main__ import main
from looplab.openml_eval.settings import FetchSettings
from looplab.openml_eval.tables.fetch import fetch, openml_table
from looplab.openml_eval.tables.table import Table, read_table
from tests.conftest import HOME
from tests.openml_eval.small_cache import arff, contents, rows, write_data_set


def stored(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.json"))


def own_csv(path: Path, count: int = 50) -> Path:
    lines = [
        f"{i},{i * i % 7},{'a' if i % 2 else 'b'},{'x' if i % 3 else 'y'}" for i in range(count)
    ]
    path.write_text("\n".join(["age,size,group,kind", *lines]) + "\n")
    return path


def test_an_interrupted_command_goes_on_with_what_is_missing(
    tmp_path: Path,
    no_network: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    cache, folder = tmp_path / "cache", tmp_path / "data"
    for openml_id in (6, 7, 8):
        write_data_set(cache, openml_id, arff(rows(50 + openml_id)))
    words = ["action=fetch", "tables=[6,7,8]", f"data_dir={folder}", f"cache_dir={cache}"]

    def stopped_at_7(openml_id: int, work: Path, given: Path | None) -> Table:
        if openml_id == 7:
            raise KeyboardInterrupt
        return openml_table(openml_id, work, given)

    with monkeypatch.context() as patch:
        patch.setattr("looplab.openml_eval.tables.fetch.openml_table", stopped_at_7)
        assert main(words) == 130
    assert "stopped; the same command resumes" in capsys.readouterr().out
    assert stored(folder) == ["small6"]
    first = contents(folder)["small6.npz"]
    assert main(words) == 0
    assert "3 tables, 2 of them fetched now" in capsys.readouterr().out
    assert stored(folder) == ["small6", "small7", "small8"]
    assert contents(folder)["small6.npz"] == first


def test_a_damaged_table_is_made_anew_and_no_other(tmp_path: Path, no_network: list[str]) -> None:
    cache, folder = tmp_path / "cache", tmp_path / "data"
    for openml_id in (6, 7):
        write_data_set(cache, openml_id, arff(rows(60)))
    settings = FetchSettings((6, 7), str(folder), str(cache))
    fetch(settings)
    before = contents(folder)["small6.npz"]
    (folder / "small7.npz").write_bytes(b"PK")
    assert "1 of them fetched now" in fetch(settings)
    assert len(read_table(folder, 7).ys) == 60
    (folder / "small7.json").write_text("{")
    assert "1 of them fetched now" in fetch(settings)
    assert len(read_table(folder, 7).ys) == 60
    assert contents(folder)["small6.npz"] == before


def test_a_csv_joins_and_follows_its_file(tmp_path: Path, no_network: list[str]) -> None:
    path, folder = own_csv(tmp_path / "mine.csv"), tmp_path / "data"
    settings = FetchSettings((str(path),), str(folder))
    said = fetch(settings)
    assert "mine: 50 rows, 2 features; classes x 33 (66.0%), y 17 (34.0%)" in said
    table = read_table(folder, "mine")
    np.testing.assert_array_equal(table.xs[:, 0], np.arange(50))
    assert table.source.url == path.resolve().as_uri()
    assert "0 of them fetched now" in fetch(settings)
    own_csv(path, 60)
    assert "1 of them fetched now" in fetch(settings)
    assert len(read_table(folder, "mine").ys) == 60
    by_group = FetchSettings((str(path),), str(folder), target="group")
    assert "classes a 30 (50.0%), b 30 (50.0%)" in fetch(by_group)
    assert "0 of them fetched now" in fetch(by_group)
    assert "classes x" in fetch(settings)  # its last column again


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "cannot be read: No columns"),
        ("a,b\n1,2,3\n4\n5,6,7,8\n", "cannot be read: "),
        ("a,b\n" + "?,x\n3,y\n" * 30, "mine has values that are missing or not finite (30 in 'a'"),
        ("a,b\n" + "3,x\n3,y\n" * 30, "no numeric column that varies"),
        ("a\n" + "x\ny\n" * 30, "no numeric column that varies"),
        ("a,b\n1,x\n", "has 1 rows"),
    ],
)
def test_a_csv_that_is_no_table_is_refused_by_its_path(
    text: str, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(text)
    with pytest.raises(RunError) as refused:
        fetch(FetchSettings((str(path),), str(tmp_path / "data")))
    assert str(refused.value).startswith(f"tables: {path}")
    assert said in str(refused.value)
    assert not list((tmp_path / "data").glob("mine*"))


def test_a_csv_in_another_encoding_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_bytes("größe,y\n1,x\n".encode("latin-1"))
    with pytest.raises(RunError, match="is not UTF-8, save it as that"):
        fetch(FetchSettings((str(path),), str(tmp_path / "data")))


def test_two_tables_of_one_name_do_not_replace_each_other(
    tmp_path: Path, no_network: list[str]
) -> None:
    cache, folder = tmp_path / "cache", tmp_path / "data"
    write_data_set(cache, 7, arff(rows(60)))
    write_data_set(cache, 8, arff(rows(70)), name="small7")
    path = own_csv(tmp_path / "small7.csv")
    fetch(FetchSettings((7,), str(folder), str(cache)))
    before = contents(folder)["small7.npz"]
    (tmp_path / "elsewhere").mkdir()
    elsewhere = own_csv(tmp_path / "elsewhere" / "mine.csv")
    fetch(FetchSettings((str(own_csv(tmp_path / "mine.csv")),), str(folder)))
    with pytest.raises(RunError, match=r"elsewhere/mine.csv would take the place of .*/mine.csv"):
        fetch(FetchSettings((str(elsewhere),), str(folder)))
    for other in (8, str(path)):
        with pytest.raises(RunError, match=r"would take the place of .*small7"):
            fetch(FetchSettings((other,), str(folder), str(cache)))
    assert contents(folder)["small7.npz"] == before


def test_a_second_process_is_told_of_the_first(tmp_path: Path) -> None:
    settings = FetchSettings((str(own_csv(tmp_path / "mine.csv")),), str(tmp_path))
    with FileLock(tmp_path / ".lock"), pytest.raises(RunError, match="filled by another process"):
        fetch(settings)
    assert "1 of them" in fetch(settings)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["action=fetsch"], "action cannot be 'fetsch'; did you mean 'fetch'?"),
        (["action=fetch", "action=fetch"], "action is given twice"),
        (["action=fetch", "table=[1]"], "table is not a setting; did you mean 'tables'?"),
        (["action=fetch", "tables=[]"], "tables must hold at least one OpenML id or CSV file"),
        (["action=fetch", "tables=[0]"], "tables holds 0, which is no OpenML id"),
        (["action=fetch", "tables=[7,7]"], "tables holds 7 twice"),
        (["action=fetch", "tables=[1.5]"], "tables holds '1.5', neither an OpenML id nor a .csv"),
        (["action=fetch", "tables=[abalone]"], "a .csv file; abalone is 720"),
        (["action=fetch", "tables=[abalon]"], "a .csv file; did you mean 'abalone'?"),
        (["action=fetch", "tables=[none.csv]"], "tables holds none.csv, and there is no such file"),
        (["action=fetch", "tables=[720.csv]"], "whose name would stand for other tables"),
        (["action=fetch", "tables=all.CSV"], "whose name would stand for other tables"),
        (["action=fetch", "target=y"], "target is for CSV files"),
        (["action=fetch", "cache_dir=tests"], "cache_dir is tests, which holds no folder org/"),
    ],
)
def test_mistakes_are_one_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"openml_eval: {said}") or said in err
    assert err.count("\n") == 1


def test_a_data_dir_inside_the_cache_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_data_set(tmp_path, 7, arff(rows(60)))
    before = contents(tmp_path)
    for inside in (tmp_path, tmp_path / "data"):
        assert main(["action=fetch", f"cache_dir={tmp_path}", f"data_dir={inside}"]) == 2
        assert "data_dir cannot lie in cache_dir=" in capsys.readouterr().err
    assert contents(tmp_path) == before


def test_help_and_mistakes_need_neither_torch_nor_pandas() -> None:
    code = (
        "import sys; from looplab.openml_eval.__main__ import main\n"
        "assert main(['--help']) == 0\n"
        "assert main(['action=fetch', '-h']) == main(['action=ship', '-h']) == 0\n"
        "assert main(['action=fetch', 'tables=[x]']) == 2\n"
        "assert not {'torch', 'pandas', 'openml'} & set(sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=HOME, capture_output=True, text=True, check=True
    )
    assert done.stdout.count("python -m openml_eval action=fetch") == 4
    assert done.stdout.count("  tables=[720,725,737,803,807,816,819,847,871,42192]\n") == 2
