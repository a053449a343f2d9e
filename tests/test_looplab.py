"""What `from looplab import …` has: its names, and the examples in their docstrings."""

from pathlib import Path

import pytest

import looplab
from tests.conftest import HOME, printed

_EXAMPLES = """
import doctest
import looplab
from looplab.show import drawing

drawing.write_picture = lambda figure, path, form: path.write_bytes(b"not rendered")
finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner()
for name in looplab.__all__:
    value = getattr(looplab, name)
    tests = [each for each in finder.find(value, name, module=False, globs={}) if each.examples]
    if not tests:
        print("no example:", name)
    for each in tests:
        each.globs["__name__"] = "__main__"
        runner.run(each)
"""


def test_the_examples_of_all_names_run(tmp_path: Path) -> None:
    """Each public name has one; in a process of its own, as some register things."""
    assert printed("-c", _EXAMPLES, cwd=tmp_path, PYTHONPATH=str(HOME)) == ""


@pytest.mark.parametrize(
    ("before", "variables", "expected"),
    [
        ("", {}, "1000 False"),
        ("sys.modules['torch'] = None", {}, "1000 True"),
        ("sys.modules['torch'] = None", {"GOMP_SPINCOUNT": "7"}, "7 False"),
        ("", {"OMP_WAIT_POLICY": "active"}, "None False"),
    ],
)
def test_idle_threads_wait_briefly_unless_told_otherwise(
    before: str,
    variables: dict[str, str],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Once the package is imported, and before torch is; what comes too late is known."""
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    code = (
        f"import os, sys; {before}\n"
        "import looplab\n"
        "from looplab.conf.threads import SET_TOO_LATE\n"
        "print(os.environ.get('GOMP_SPINCOUNT'), SET_TOO_LATE)"
    )
    assert printed("-c", code) == f"{expected}\n"


def test_what_there_is_and_which_version() -> None:
    assert {*looplab.__all__, "__version__"} <= {*dir(looplab)}
    assert printed("run.py", "--version") == f"looplab {looplab.__version__}\n"
