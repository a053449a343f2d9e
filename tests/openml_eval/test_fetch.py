"""`action=fetch`: by the client openml-python, from a cache of it or a server, and from one's own
files; what is there stays, an interrupted command goes on, and nothing that is not whole is used.
"""

import hashlib
import json
import os
import pickle
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from looplab.conf.mistakes import RunError
from looplab.openml_eval import fetch as module
from looplab.openml_eval.__main__ import main
from looplab.openml_eval.fetch import fetch, openml_table
from looplab.openml_eval.settings import FetchSettings
from looplab.openml_eval.tables import Table, read_table
from tests.openml_eval.conftest import contents

HEADER = """\
@RELATION small
@ATTRIBUTE width NUMERIC
@ATTRIBUTE colour {red,green,blue}
@ATTRIBUTE height REAL
@ATTRIBUTE label {yes,no}
@DATA
"""
FOLDER = Path("org", "openml", "www", "datasets")


def rows(count: int) -> list[str]:
    """Lines of the ARFF file above: every third one is 'yes'."""
    return [
        f"{i / 7:.3f},{'red' if i % 2 else 'blue'},{(-1) ** i * i},{'no' if i % 3 else 'yes'}"
        for i in range(count)
    ]


def arff(lines: list[str], header: str = HEADER) -> str:
    return header + "\n".join(lines) + "\n"


def description(openml_id: int, text: str, target: str | None = "label", **fields: str) -> str:
    """description.xml of a data set whose ARFF file is `text`."""
    target_field = {} if target is None else {"default_target_attribute": target}
    known = {
        "id": str(openml_id),
        "name": f"small{openml_id}",
        "version": "3",
        "description": "Made by a test. It means nothing.",
        "format": "ARFF",
        "upload_date": "2014-04-06T23:21:11",
        "licence": "Public",
        "url": f"https://www.openml.org/data/v1/download/{openml_id}/small.arff",
        **target_field,
        "md5_checksum": hashlib.md5(text.encode()).hexdigest(),
        **fields,
    }
    inner = "\n".join(f"  <oml:{key}>{value}</oml:{key}>" for key, value in known.items())
    start = '<oml:data_set_description xmlns:oml="http://openml.org/openml">'
    return f"{start}\n{inner}\n</oml:data_set_description>\n"


def write_data_set(
    cache: Path, openml_id: int, text: str, target: str | None = "label", **fields: str
) -> Path:
    """Its folder in a cache."""
    folder = cache / FOLDER / str(openml_id)
    folder.mkdir(parents=True)
    (folder / "dataset.arff").write_text(text, encoding="utf-8")
    words = description(openml_id, text, target, **fields)
    (folder / "description.xml").write_text(words, encoding="utf-8")
    return folder


ERROR = (
    '<oml:error xmlns:oml="http://openml.org/openml"><oml:code>111</oml:code>'
    "<oml:message>Unknown dataset</oml:message></oml:error>"
)


@dataclass
class Server:
    """OpenML as we see it: `texts` are its ARFF files by id, `asked` the paths that were asked
    for."""

    url: str = ""
    texts: dict[int, str] = field(default_factory=dict)
    sent: dict[int, str] = field(default_factory=dict)  # in place of `texts`: altered on the way
    asked: list[str] = field(default_factory=list)
    page: str = ""  # in place of every answer: of another server, or while OpenML is down
    code: int = 200  # of that page

    def answer(self, path: str) -> tuple[int, str]:
        self.asked.append(path)
        if self.page:
            return self.code, self.page
        openml_id = int(path.rpartition("/")[2].removesuffix(".arff"))
        if openml_id not in self.texts:
            return 412, ERROR
        text = self.texts[openml_id]
        if path.endswith(".arff"):
            return 200, self.sent.get(openml_id, text)
        return 200, description(openml_id, text, url=f"{self.url}/{openml_id}.arff")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server of this machine in openml.org's place."""
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            code, text = state.answer(self.path.partition("?")[0])
            self.send_response(code)
            self.send_header("Content-Type", "text/plain; charset=utf-8")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{http.server_port}"
    monkeypatch.setattr(module, "SERVER", f"{state.url}/api/v1/xml")
    monkeypatch.setenv("no_proxy", "*")
    thread = threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield state
    http.shutdown()
    http.server_close()
    thread.join()


def stored(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.json"))


def own_csv(path: Path, count: int = 50) -> Path:
    lines = [
        f"{i / 2},{i * i % 7},{'a' if i % 2 else 'b'},{'x' if i % 3 else 'y'}" for i in range(count)
    ]
    path.write_text("\n".join(["age,size,group,kind", *lines]) + "\n")
    return path


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
    source = table.source
    assert (source.openml_id, source.version) == (7, 3)
    assert (source.name, source.target) == ("small7", "label")
    assert (source.licence, source.date) == ("Public", "2014-04-06T23:21:11")
    assert no_network == []
    assert contents(cache) == before
    assert sorted(os.listdir(folder)) == ["small7.json", "small7.npz"]


def test_what_openml_says_to_ignore_is_no_feature(tmp_path: Path, no_network: list[str]) -> None:
    """Several names may stand in one text; a sparse row has zeros and the first categories."""
    lines = [f"{{0 {i}.5, 2 {i * i}{', 3 no' if i % 2 else ''}}}" for i in range(60)]
    text = arff(lines, HEADER.replace("colour {red,green,blue}", "'its depth' NUMERIC"))
    folder = write_data_set(tmp_path, 7, text, ignore_attribute="width,its depth")
    table = openml_table(7, folder)
    assert (table.features, table.counts) == (("height",), (30, 30))
    np.testing.assert_array_equal(table.xs[:, 0], np.arange(60) ** 2)
    folder = write_data_set(tmp_path, 8, text)
    assert openml_table(8, folder).source.notes[-1] == "left out, constant: its depth"


def test_a_pickle_in_a_cache_is_never_loaded(tmp_path: Path, no_network: list[str]) -> None:
    class Harm:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(tmp_path / "harm"),)

    folder = write_data_set(tmp_path / "cache", 7, arff(rows(60)))
    for name in ("dataset.pkl.py3", "features.xml.pkl", "qualities.xml.pkl"):
        (folder / name).write_bytes(pickle.dumps(Harm()))
    assert len(openml_table(7, folder).ys) == 60
    assert not (tmp_path / "harm").exists()


def test_a_copy_that_is_altered_is_refused_and_stays(tmp_path: Path, no_network: list[str]) -> None:
    cached = write_data_set(tmp_path / "cache", 7, arff(rows(60)))
    (cached / "dataset.arff").write_text(arff(rows(59)))
    before = contents(tmp_path)
    with pytest.raises(RunError, match=r"dataset\.arff is altered or incomplete, .*: repair the c"):
        openml_table(7, cached)
    assert contents(tmp_path) == before
    assert no_network == []


@pytest.mark.parametrize("left", [[], ["dataset.arff"]])
def test_without_network_and_complete_copy_a_line_says_what_fetches_it(
    left: list[str], tmp_path: Path, no_network: list[str]
) -> None:
    cache, folder = tmp_path / "cache", tmp_path / "data"
    kept = write_data_set(cache, 7, arff(rows(60)))
    for path in kept.iterdir():
        if path.name not in left:
            path.unlink()
    before = contents(cache)
    with pytest.raises(RunError) as refused:
        fetch(FetchSettings((7,), str(folder), str(cache)))
    said = str(refused.value)
    assert said.startswith(f"table 7 is not here; {kept} has no complete copy of it, and www.op")
    assert "`python -m openml_eval action=fetch tables=7` fetches it" in said
    assert "\n" not in said
    assert no_network
    assert contents(cache) == before
    assert not list(folder.iterdir())


def test_a_table_is_downloaded_once_checked_and_kept_and_nothing_else_is(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not a file beside it: no cache, no pickle, nothing in the user's home, whose settings and key
    are not read; and the client in a notebook has its own settings again."""
    home, folder = tmp_path / "home", tmp_path / "data"
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(home))
    for name in [name for name in sys.modules if name.partition(".")[0] == "openml"]:
        monkeypatch.delitem(sys.modules, name)  # its import makes folders
    environment = dict(os.environ)
    server.texts = {7: arff(rows(60))}
    settings = FetchSettings((7,), str(folder))
    assert "1 of them fetched now" in fetch(settings)
    assert server.asked == ["/api/v1/xml/data/7", "/7.arff"]
    table = read_table(folder, 7)
    assert len(table.ys) == 60
    assert not any("copied" in note for note in table.source.notes)
    assert sorted(os.listdir(folder)) == ["small7.json", "small7.npz"]
    assert not home.exists()
    assert dict(os.environ) == environment
    assert "127.0.0.1" not in sys.modules["openml"].config.server
    assert "0 of them fetched now" in fetch(settings)
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        ("unknown", r"OpenML gives no table 7 \(.*Unknown dataset.*lists those that it has"),
        ("down", r"table 7 is not here, .* \(ConnectionError\).*action=fetch tables=7` fetches it"),
        ("busy", r"table 7 is not here, .* \(OpenMLServerException\).*tables=7` fetches it"),
        ("page", r"table 7 is not here, .* \(\w+Error\).*action=fetch tables=7` fetches it"),
        ("cut short", "table 7 arrives altered or incomplete, .*: try again"),
    ],
)
def test_a_failure_is_a_line_and_leaves_nothing_behind(
    failure: str,
    said: str,
    server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = arff(rows(60))
    server.texts = {} if failure == "unknown" else {7: text}
    server.sent = {7: text[:-40]} if failure == "cut short" else {}
    server.page = {
        "page": "<html><p>Log in to this network</html>",
        "busy": ERROR.replace("<oml:code>111", "<oml:code>107"),
    }.get(failure, "")
    server.code = 412 if failure == "busy" else 200
    settings = FetchSettings((7,), str(tmp_path))
    with monkeypatch.context() as patch:
        if failure == "down":
            patch.setattr(module, "SERVER", "http://127.0.0.1:9/api/v1/xml")
        with pytest.raises(RunError, match=said) as refused:
            fetch(settings)
    assert "\n" not in str(refused.value)
    assert not list(tmp_path.iterdir())
    server.texts, server.sent, server.page = {7: text}, {}, ""
    fetch(settings)
    assert len(read_table(tmp_path, 7).ys) == 60


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

    def stopped_at_7(openml_id: int, cached: Path) -> Table:
        if openml_id == 7:
            raise KeyboardInterrupt
        return openml_table(openml_id, cached)

    with monkeypatch.context() as patch:
        patch.setattr("looplab.openml_eval.fetch.openml_table", stopped_at_7)
        assert main(words) == 130
    assert "stopped; the same command resumes" in capsys.readouterr().out
    assert stored(folder) == ["small6"]
    first = contents(folder)["small6.npz"]
    assert main(words) == 0
    assert "3 tables, 2 of them fetched now" in capsys.readouterr().out
    assert stored(folder) == ["small6", "small7", "small8"]
    assert contents(folder)["small6.npz"] == first


def test_a_csv_joins_and_follows_its_file(tmp_path: Path, no_network: list[str]) -> None:
    path, folder = own_csv(tmp_path / "mine.csv"), tmp_path / "data"
    settings = FetchSettings((str(path),), str(folder))
    said = fetch(settings)
    assert "mine: 50 rows, 2 features; classes x 33 (66.0%), y 17 (34.0%)" in said
    table = read_table(folder, "mine")
    np.testing.assert_array_equal(table.xs[:, 0], np.arange(50) / 2)
    assert table.source.url == path.resolve().as_uri()
    assert "0 of them fetched now" in fetch(settings)
    own_csv(path, 60)
    assert "1 of them fetched now" in fetch(settings)
    assert len(read_table(folder, "mine").ys) == 60
    by_group = FetchSettings((str(path),), str(folder), target="group")
    assert "classes a 30 (50.0%), b 30 (50.0%)" in fetch(by_group)
    assert "classes x" in fetch(settings)  # its last column again


def test_a_table_whose_json_lost_a_key_is_one_line(tmp_path: Path) -> None:
    fetch(FetchSettings((str(own_csv(tmp_path / "mine.csv")),), str(tmp_path)))
    path = tmp_path / "mine.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    del content["features"]
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(RunError, match=r"mine\.json is altered; .* makes it again"):
        read_table(tmp_path, "mine")
