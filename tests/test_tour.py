"""docs/tour.md: every block runs as it stands, in order, and prints what the text says."""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from tests.conftest import HOME

TOUR = (HOME / "docs" / "tour.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(python|sh|text)\n(.*?)```", TOUR, flags=re.DOTALL)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def agrees(expected: str, line: str) -> bool:
    """Whether a line says the same, its numbers up to two units of the last digit."""
    if _NUMBER.sub("#", expected).split() != _NUMBER.sub("#", line).split():
        return False
    pairs = zip(_NUMBER.findall(expected), _NUMBER.findall(line), strict=True)
    return all(
        abs(float(said) - float(found)) <= 2.001 * 10.0 ** -len(said.partition(".")[2])
        if "." in said
        else said == found
        for said, found in pairs
    )


def shell(command: str, folder: Path) -> str:
    """What a command prints, of the project but run in `folder`."""
    python, *words = shlex.split(command)
    assert python == "python"
    words = [str(HOME / word) if word == "run.py" else word for word in words]
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(HOME)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_tour_prints_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    printed = ""
    for language, block in BLOCKS:
        if language == "python":
            with redirect_stdout(io.StringIO()) as out:
                exec(block, names)
            printed = out.getvalue()
        elif language == "sh":
            printed = shell(block, tmp_path)
        else:
            lines = printed.splitlines()
            for expected in block.splitlines():
                assert any(agrees(expected, line) for line in lines), (expected, printed)
    (run,) = (tmp_path / "runs" / "shipped").iterdir()
    assert (run / "figures" / "error_by_examples.pdf").read_bytes().startswith(b"%PDF")
    assert (run / "probing" / "figures" / "least_squares_by_layer.png").exists()


def test_numbers_may_differ_by_their_last_digit_and_words_not_at_all() -> None:
    assert agrees("after 5 examples: 0.56", "after 5 examples: 0.58")
    assert not agrees("after 5 examples: 0.56", "after 5 examples: 0.59")
    assert not agrees("after 5 examples: 0.56", "after 6 examples: 0.56")
    assert not agrees("after 5 examples: 0.56", "with 5 examples: 0.56")
