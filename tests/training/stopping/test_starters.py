"""Two starters of one run: one trains, the other is told who does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import HOME


@pytest.mark.parametrize("pairs", [3, pytest.param(200, marks=pytest.mark.slow)])
def test_one_trains_and_the_other_names_it(pairs: int, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.training.stopping.starters", str(tmp_path), str(pairs)],
        capture_output=True,
        text=True,
        cwd=HOME,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        check=True,
    )
    outcomes = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(outcomes) == pairs
    for number, pair in enumerate(outcomes):
        assert not [each for each in pair if "failed" in each], pair
        (trained,) = [each for each in pair if "trained" in each]
        (held,) = [each for each in pair if "held" in each]
        assert f"being worked on by process {trained['pid']} on " in held["held"]
        (folder,) = (tmp_path / str(number)).iterdir()
        assert json.loads((folder / "status.json").read_text())["state"] == "finished"
        assert not list(folder.rglob("*.partial"))
