"""The documentation: kept results and their pictures, the API's page, and the site that `make docs`
builds of them."""

import json
import re
import shutil
import struct
from pathlib import Path

import pytest

import looplab
from looplab.gallery import draw_all, kept_files, main
from looplab.training import Run
from tests.conftest import HOME, python

DOCS = HOME / "docs"


def test_a_result_is_kept_and_its_pictures_are_drawn_of_the_file_alone(
    tiny_run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looplab.evaluate(tiny_run)
    words = [f"keep={tiny_run.path}/evaluation.json", "name=tiny"]
    monkeypatch.chdir(tmp_path)
    assert main([*words, "command=python run.py task=linear"]) == 0
    folder = tmp_path / "docs"
    (path,) = kept_files(folder)
    kept = json.loads(path.read_text(encoding="utf-8"))
    assert kept["command"] == "python run.py task=linear"
    pictures = {"by_examples": ["error_by_examples"], "both": [p["name"] for p in kept["panels"]]}
    path.write_text(json.dumps(kept | {"pictures": pictures}), encoding="utf-8")
    assert main(words) == 0  # kept anew: the pictures stay
    shutil.rmtree(tiny_run.path)
    assert sorted(file.name for file in draw_all(folder)) == ["both.png", "by_examples.png"]
    assert (folder / "both.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("path", "said"),
    [("x", "is no file: x"), ("LICENSE", "has no panels, or was altered: LICENSE")],
)
def test_what_cannot_be_kept_is_one_line(
    path: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(HOME)
    assert main([f"keep={path}"]) == 2
    assert capsys.readouterr().err == f"looplab.gallery: keep {said}\n"


def test_the_committed_pictures_are_those_of_the_kept_files_in_one_style() -> None:
    """By name; and those of as many panels are equally wide."""
    panels: dict[str, list[str]] = {}
    for path in kept_files(DOCS):
        panels |= json.loads(path.read_text(encoding="utf-8"))["pictures"]
    assert {path.stem for path in DOCS.glob("*.png")} == set(panels)
    widths: dict[int, set[int]] = {}
    for name, parts in panels.items():
        (width,) = struct.unpack(">I", (DOCS / f"{name}.png").read_bytes()[16:20])
        widths.setdefault(len(parts), set()).add(width)
    assert all(len(found) == 1 for found in widths.values()), widths


def test_the_page_of_the_api_has_every_public_name() -> None:
    named = re.findall(r"^::: looplab\.(\w+)$", (DOCS / "api.md").read_text("utf-8"), flags=re.M)
    assert sorted(named) == sorted(looplab.__all__)


@pytest.mark.slow
def test_the_site_needs_no_network(tmp_path: Path) -> None:
    """Built without a warning, as of a link to nothing; what a page loads lies beside it."""
    pytest.importorskip("mkdocs", reason="make docs installs mkdocs")
    done = python("-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path), cwd=HOME)
    assert done.returncode == 0, done.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert {"index.html", "gallery.html", "api.html", "cite.html"} <= {page.name for page in pages}
    for page in pages:
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r'<(?:script|img|iframe|source)\b[^>]*\bsrc="([^"]+)"', text)
        loaded += re.findall(r'<link\b[^>]*rel="stylesheet"[^>]*href="([^"]+)"', text)
        assert loaded
        assert not [each for each in loaded if re.match(r"(https?:)?//", each)], page
    for path in ("tour", "first_model", "look_inside", "own"):
        notebook = json.loads((tmp_path / "notebooks" / f"{path}.ipynb").read_text("utf-8"))
        assert {cell["cell_type"] for cell in notebook["cells"]} == {"code", "markdown"}
