"""A folder that cannot be written to is refused before anything is computed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reloop import main as run
from reloop.conf.checks.folders import check_folder
from reloop.conf.mistakes import ConfigError
from reloop.experiments.iso_depth import __main__ as iso_depth
from reloop.experiments.scaling_law import __main__ as scaling_law
from reloop.experiments.stability import __main__ as stability
from reloop.openml_eval.__main__ import main as openml_eval

NOBODY = 65534
TRAIN = ["task=linear", "training.steps=1"]


@pytest.fixture
def nobodys() -> Iterator[Path]:
    """A folder that only its owner may write to, and a process that is somebody else's."""
    folder = Path(tempfile.mkdtemp())  # where others may look, unlike in tmp_path
    folder.chmod(0o555)
    is_root = os.geteuid() == 0
    try:
        if is_root:
            os.seteuid(NOBODY)
        yield folder
    finally:
        if is_root:
            os.seteuid(0)
        folder.chmod(0o755)
        shutil.rmtree(folder)


@pytest.mark.parametrize("name", ["there", "new", "new/and/newer", "there/new", "x/../new", "."])
def test_a_folder_that_can_be_made_is_not_made_yet(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    for folder in (name, str(tmp_path / name)):
        check_folder("folder", folder)
    assert list(tmp_path.rglob("*")) == [tmp_path / "there"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "must be a folder or a new one's path, got ''"),
        ("file", "must be a folder or a new one's path, got 'file'"),
        ("file/a/b", "must be a folder or a new one's path, got 'file/a/b'"),
        ("to_nowhere", "must be a folder or a new one's path, got 'to_nowhere'"),
        ("to_itself/a", "must be a folder or a new one's path, got 'to_itself/a'"),
        ("/proc/x", "cannot be '/proc/x': nothing can be written in /proc (No such file or dir"),
        ("a" * 256, "nothing can be written in . (File name too long)"),
        ("a/b/" + "c" * 256, "nothing can be written in . (File name too long)"),
        ("a/" * 2500, "nothing can be written in . (File name too long)"),
    ],
)
def test_one_that_cannot_is_refused(
    name: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    (tmp_path / "to_nowhere").symlink_to("nowhere")
    (tmp_path / "to_itself").symlink_to("to_itself")
    before = set(tmp_path.iterdir())
    with pytest.raises(ConfigError) as error:
        check_folder("data_dir", name)
    assert str(error.value).startswith("data_dir ")
    assert said in str(error.value)
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize("name", ["", "new", "new/newer"])
def test_one_that_may_only_be_read_is_refused(name: str, nobodys: Path) -> None:
    with pytest.raises(ConfigError, match=r"nothing can be written in .* \(Permission denied\)"):
        check_folder("folder", str(nobodys / name))


@pytest.mark.parametrize(
    ("main", "words", "name", "key"),
    [
        (run.main, TRAIN, "run.py", "folder"),
        (run.main, ["-m", *TRAIN, "seed=0,1"], "run.py", "folder"),
        (run.main, ["action=import", f"checkpoint={__file__}"], "run.py", "folder"),
        (stability.main, ["figure=toy"], "experiments.stability", "folder"),
        (iso_depth.main, [], "experiments.iso_depth", "folder"),
        (scaling_law.main, ["table=minima"], "experiments.scaling_law", "folder"),
        (openml_eval, [], "openml_eval", "folder"),
        (openml_eval, ["action=fetch"], "openml_eval", "data_dir"),
    ],
)
@pytest.mark.parametrize("folder", ["/proc/x", f"{__file__}/x"])
def test_every_command_refuses_it_in_a_line(
    main: Callable[[list[str]], int],
    words: list[str],
    name: str,
    key: str,
    folder: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*words, f"{key}={folder}"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"{name}: {key} ")
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
