"""The summary of what gpu_report.sh brought home, and its tests, a process for each file."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from reloop.benchmarks.report.__main__ import main
from reloop.benchmarks.report.archive import NAME
from reloop.benchmarks.report.outcomes import outcomes
from tests.conftest import HOME

RESULTS = HOME / "benchmarks" / "results"
PART = {"half": 1, "part": "modules", "exit_code": 0, "seconds": 1, "limit": 15}


def pack(folder: Path, files: Mapping[str, str]) -> Path:
    """An archive with these files in a folder; the folder."""
    folder.mkdir()
    with tarfile.open(folder / NAME, "w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return folder


def part(**facts: object) -> str:
    return json.dumps({**PART, **facts}) + "\n"


def test_two_halves_are_one_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files of earlier versions, without turns and clocks, are read too."""
    first = pack(
        tmp_path / "first",
        {
            "./half1/parts.jsonl": part()
            + part(part="tests_bf16", exit_code=124)
            + part(part="step_sparse"),
            "./half1/tests_bf16/test_mlp.log": "tests/a.py::b[x] PASSED  [1%]\ntests/a.py::c ",
            "./half1/step_sparse.json": (RESULTS / "step_cpu.json").read_text(encoding="utf-8"),
        },
    )
    second = pack(
        tmp_path / "second",
        {
            "./half2/parts.jsonl": part(half=2) + part(half=2, part="parity", exit_code=1),
            "./half2/parity.json": (RESULTS / "parity_cpu.json").read_text(encoding="utf-8"),
            "./half2/kernels.json": (RESULTS / "kernels_static.json").read_text(encoding="utf-8"),
        },
    )
    assert main([f"folders=[{second},{first}]"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("|")[2].strip() for line in lines if line.startswith(("| 1", "| 2"))] == [
        *("modules", "tests_bf16", "step_sparse", "modules", "parity"),
    ]
    assert "| 1 | tests_bf16 | 124 | 1 | 15 | cut off |" in lines
    assert "| 2 | parity | 1 | 1 | 15 | failed, see its log |" in lines
    assert "| tests_bf16 | 1 | 0 | 1 | 0 |" in lines
    assert "- tests_bf16: tests/a.py::c unfinished" in lines
    rows = [line for line in lines if line.startswith("| ours eager bf16 | 2586 |")]
    assert "1.94 (1.92 to 2.13)" in rows[0]
    titles = [line for line in lines if line.startswith("## ")]
    assert titles == [
        "## Tests",
        "## Steps: step_sparse",
        "## Parity: parity",
        "## Kernels: kernels",
    ]
    assert any(line.startswith("| ours eager bf16 | 0.9891 | 0.9856, ") for line in lines)


def test_profiles_and_clocks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    step = json.loads((RESULTS / "step_cpu.json").read_text(encoding="utf-8"))
    step["settings"] = {"sparse": step["settings"]["sparse"]}
    step["settings"]["sparse"] |= {
        "clocks": [{"sm_mhz": 1980.0, "watts": None}, {"sm_mhz": 1755.0, "watts": None}],
        "failures": {"ours triton bf16": "its process was ended by SIGABRT"},
    }
    rows = [{"name": f"kernel {number}|", "calls": 2.0, "ms": 1.0} for number in range(20)]
    rates = {"wall_ms": 25.0, "busy_ms": 20.0, "teraflop_per_second": 3.0}
    profile = {"setting": "sparse", "name": "ours", "rates": rates, "rows": rows}
    timed = {"shape": [64, 41, 256, 8], "precision": "bf16", "what": "prefix"}
    kernels = {"kernels": [{**timed, "eager_us": 100.0, "triton_us": 50.0}]}
    folder = pack(
        tmp_path / "out",
        {
            "half1/step.json": json.dumps(step),
            "half1/profile.json": json.dumps(profile),
            "half1/kernels.json": json.dumps(kernels),
        },
    )
    assert main([f"folders={folder}"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "Between turns: sm_mhz 1755 to 1980" in lines
    assert "- ours triton bf16 failed: its process was ended by SIGABRT" in lines
    assert r"| `kernel 0\|` | 2 | 1.0000 | 5.0% | 500.00 |" in lines
    assert sum(line.startswith("| `kernel") for line in lines) == 12
    assert "and 8 more" in lines
    assert "| 64, 41, 256, 8 | bf16 | prefix | 100.0 | 50.0 | 2.00 |" in lines


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ([], "folders must name at least one"),
        (["folders=nowhere"], "nowhere holds no report.tar.gz"),
        (["folders=broken"], "broken/report.tar.gz cannot be read"),
        (["folder=broken"], "did you mean 'folders'"),
    ],
)
def test_a_mistake_is_one_line(
    words: list[str],
    named: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    pack(tmp_path / "broken", {"half1/a.log": "text" * 1000})
    archive = tmp_path / "broken" / NAME
    archive.write_bytes(archive.read_bytes()[:-20])
    assert main(words) == 2
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert named in told.err


def test_a_file_of_tests_that_crashes_stops_no_other(tmp_path: Path) -> None:
    """Real tests, of which one ends its process."""
    folder = tmp_path / "tests"
    folder.mkdir()
    texts = {
        "crashes": "import os\ndef test_bf16_first(): pass\ndef test_bf16_dies(): os.abort()\n"
        "def test_bf16_last(): pass\n",
        "passes": "import pytest\ndef test_bf16(): pass\ndef test_fp32(): assert 0\n"
        "@pytest.fixture\ndef broken():\n    yield\n    assert 0\n"
        "def test_bf16_late(broken): pass\n@pytest.mark.skip\ndef test_bf16_not(): pass\n",
        "other": "def test_fp32(): assert 0\n",
    }
    for name, text in texts.items():
        (folder / f"test_{name}.py").write_text(text, encoding="utf-8")
    files = [f"tests/test_{name}.py" for name in texts]
    done = subprocess.run(
        [HOME / "benchmarks" / "kernel_tests.sh", "logs", "2", "bf16", "", *files],
        cwd=tmp_path,
        env={**os.environ, "PYTHON": sys.executable, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "tests/test_other.py: exit code 0" in done.stdout  # none of its tests was asked for
    crashed, passed = (
        outcomes((tmp_path / "logs" / f"test_{name}.log").read_text(encoding="utf-8"))
        for name in ("crashes", "passes")
    )
    assert crashed == {
        "passed": ["tests/test_crashes.py::test_bf16_first"],
        "failed": [],
        "unfinished": ["tests/test_crashes.py::test_bf16_dies"],
        "skipped": [],
    }
    assert passed == {
        "passed": ["tests/test_passes.py::test_bf16"],
        "failed": ["tests/test_passes.py::test_bf16_late"],
        "unfinished": [],
        "skipped": ["tests/test_passes.py::test_bf16_not"],
    }
