"""The script for a GPU runs its parts, whatever becomes of each; Python is played by a script."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from tests.benchmarks.checkout import write_checkout
from tests.conftest import HOME

SCRIPT = HOME / "benchmarks" / "gpu_report.sh"
PYTHON = """#!/bin/sh
echo "$@"
case "$*" in *step_tree*) exit 7;; *step_relu*) sleep 60;; esac
"""


def run(folder: Path, *words: str, total: int) -> subprocess.CompletedProcess[str]:
    python = folder / "python"
    python.write_text(PYTHON, encoding="utf-8")
    python.chmod(0o755)
    environment = {**os.environ, "PYTHON": str(python), "TOTAL": str(total)}
    return subprocess.run(
        [SCRIPT, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_a_part_that_fails_stops_no_other(tmp_path: Path) -> None:
    checkout = write_checkout(tmp_path)
    done = run(tmp_path, str(checkout), "out", total=5)
    assert done.returncode == 0, done.stderr
    parts = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    codes = {part["part"]: part["exit_code"] for part in parts}
    assert codes["kernel_tests"] == codes["step_sparse"] == 0
    assert codes["step_tree"] == 7
    assert codes["step_relu"] == 124  # all the time that was left
    assert codes["parity"] == -1
    log = (tmp_path / "out" / "step_sparse.log").read_text(encoding="utf-8")
    assert f"configs=sparse device=cuda reference={checkout} backend=[eager,triton]" in log


def test_without_a_checkout_it_says_how(tmp_path: Path) -> None:
    done = run(tmp_path, "nowhere", total=8)
    assert done.returncode == 2
    assert "REFERENCE must hold scripts/" in done.stderr
