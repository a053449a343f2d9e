"""The script for a GPU runs its parts, whatever becomes of each; Python is played by a script."""

import json
import os
import signal
import subprocess
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.test_step import write_checkout
from tests.conftest import HOME

SCRIPT = HOME / "benchmarks" / "gpu_report.sh"
# Says its words; writes a file where one is named by json=; sleeps or fails in some parts.
PYTHON = """#!/bin/sh
echo "$@"
for word in "$@"; do case $word in json=*) echo '{}' >"${word#json=}";; esac; done
case "$*" in
    *step_tree*) exit 7;;
    *step_relu*) [ -n "$SLEEP" ] && exec sleep 60;;
esac
exit 0
"""


def start(folder: Path, *words: str, **variables: str) -> subprocess.Popen[str]:
    python = folder / "python"
    python.write_text(PYTHON, encoding="utf-8")
    python.chmod(0o755)
    return subprocess.Popen(
        [SCRIPT, *words],
        cwd=folder,
        env={**os.environ, "PYTHON": str(python), "TMPDIR": str(folder), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(folder: Path, *words: str, **variables: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr."""
    process = start(folder, *words, **variables)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def report(out: Path) -> dict[str, dict[str, Any]]:
    """The parts by name, of those of all thirds."""
    parts = json.loads((out / "report.json").read_text(encoding="utf-8"))
    return {f"{part['third']} {part['part']}": part for part in parts}


def archived(out: Path) -> dict[str, str]:
    """The files of the archive."""
    with tarfile.open(out / "report.tar.gz") as files:
        return {
            member.name: file.read().decode()
            for member in files
            if (file := files.extractfile(member))
        }


@pytest.mark.slow
def test_all_thirds_leave_two_files_and_keep_their_time(tmp_path: Path) -> None:
    checkout, out = write_checkout(tmp_path), tmp_path / "out"
    code, said, err = run(tmp_path, str(checkout), "out", "part=2")
    assert (code, err) == (0, ""), said
    first = report(out)
    assert {part["third"] for part in first.values()} == {2}
    code, said, err = run(tmp_path, "part=1", str(checkout), "out")
    assert (code, err) == (0, ""), said
    parts = report(out)
    assert {key: parts[key] for key in first} == first  # the other third's are kept
    code, said, err = run(tmp_path, "part=3", str(checkout), "out")
    assert (code, err) == (0, ""), said
    parts = report(out)
    for third in (1, 2, 3):
        limits = [part["limit"] for part in parts.values() if part["third"] == third]
        assert len(limits) > 5
        assert 0 < sum(limits) <= 520
    assert {path.name for path in out.iterdir()} == {"report.json", "report.tar.gz"}
    assert parts["2 step_tree"]["exit_code"] == 7
    assert all(
        part["exit_code"] == 0 for key, part in parts.items() if not key.endswith("step_tree")
    )
    files = archived(out)
    log = files["./third1/step_sparse.log"]
    assert f"configs=sparse device=cuda reference={checkout} compiled_reference=true" in log
    assert files["./third1/step_sparse.json"] == files["./third2/parity.json"] == "{}\n"
    assert "test_operations.py" in files["./third1/tests_kernels/tests.log"]
    assert not list(tmp_path.glob("tmp.*"))  # its working folder


def test_what_is_stopped_keeps_its_files(tmp_path: Path) -> None:
    checkout, out = write_checkout(tmp_path), tmp_path / "out"
    process = start(tmp_path, str(checkout), "out", "part=2", SLEEP="1")
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("tmp.*/third2/step_relu.json")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 143
    assert report(out)["2 step_relu"]["exit_code"] not in (0, -1)
    assert archived(out)["./third2/step_relu.json"] == "{}\n"  # of the part that was stopped, too
    assert "2 step_standard" not in report(out)
    assert not list(tmp_path.glob("tmp.*"))
