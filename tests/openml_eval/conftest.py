"""Without a network, with a server in its place, and run folders that tests of estimators share."""

import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from looplab.openml_eval import fetch
from tests.openml_eval.runs import write_restless
from tests.openml_eval.small_cache import description

ERROR = (
    '<oml:error xmlns:oml="http://openml.org/openml"><oml:code>111</oml:code>'
    "<oml:message>Unknown dataset</oml:message></oml:error>"
)


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every attempt to connect, or to find an address, fails and is listed here."""
    attempts: list[str] = []

    def refuse(*words: Any, **_: Any) -> None:
        attempts.append(str(words))
        raise OSError("no network")

    for owner, name, value in (
        (socket.socket, "connect", refuse),
        (socket.socket, "connect_ex", refuse),
        (socket, "getaddrinfo", refuse),
    ):
        monkeypatch.setattr(owner, name, value)
    return attempts


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
    monkeypatch.setattr(fetch, "SERVER", f"{state.url}/api/v1/xml")
    monkeypatch.setenv("no_proxy", "*")
    thread = threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield state
    http.shutdown()
    http.server_close()
    thread.join()


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`classifier` and `regressor`, looped models of noise with checkpoints of steps 1 and 2
    (runs.py). Nobody writes in them."""
    folder = tmp_path_factory.mktemp("runs")
    for name, classes in (("classifier", 2), ("regressor", 0)):
        for step in (1, 2):
            write_restless(folder / name, classes, step)
    return folder
