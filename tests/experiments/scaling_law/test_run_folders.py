"""Folders that a user names: runs, and folders that hold runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from reloop.conf.mistakes import ConfigError
from reloop.experiments.scaling_law.run_folders import run_folders


def made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.yaml").touch()
    return folder


def test_each_run_is_found_once_in_order(tmp_path: Path) -> None:
    b, a, other = (made(tmp_path / name) for name in ("runs/b", "runs/a", "other"))
    (tmp_path / "runs" / "iso_depth-1").mkdir()
    runs = str(tmp_path / "runs")
    assert run_folders([runs]) == [a, b]
    assert run_folders([str(b), runs, str(other), f"{runs}/../runs"]) == [b, a, other]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere", "must name folders, got '{}'"),
        ("runs/a/config.yaml", "must name folders, got '{}'"),
        (".", "names {}, which neither is a run nor holds any"),
    ],
)
def test_what_is_no_run_is_refused(name: str, said: str, tmp_path: Path) -> None:
    made(tmp_path / "runs/a")
    path = tmp_path / name
    with pytest.raises(ConfigError) as caught:
        run_folders([str(path)])
    assert str(caught.value) == "runs " + said.format(path)
