"""What a digest of code is of, which files and cells belong to a user's code, and which of his runs
an earlier version's name finds."""

import hashlib
import linecache
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from looplab.conf import digest
from looplab.conf.digest import code_digest, digest_of_kind, kind_of
from looplab.conf.imports import HOME, imported_code
from looplab.conf.plugins import edited_files
from looplab.training import train
from looplab.training.run_folder.run import RunFolder, other_code
from looplab.training.run_folder.sources import outside_code, outside_source, sources_of
from tests.conftest import tiny_config

CODE = '''"""A module."""
import numpy as np


class A:
    """A class."""

    x: "A" = 1

    def f(self, y):
        """A function."""
        if y:
            y += 1
            return f"{y!r:>{self.x}} {'a' + 'b'.upper()} \\
    # no comment"
        return """not
        a docstring""", np.sum([y,
            1])
'''
DIGEST = "tokens:2027c9642891fdfa"

SAME = {
    "a comment": CODE.replace("y += 1", "y += 1  # one more\n            # and so on"),
    "other docstrings": CODE.replace("A module.", "Other.").replace("A class.", "One\n    class."),
    "no docstring": CODE.replace('        """A function."""\n', ""),
    "line breaks": CODE.replace("[y,\n            1]", "[y, 1]").replace("\n\n\n", "\n\n\n\n"),
    "deeper blocks": CODE.replace("            y +=", "             y +=").replace(
        "            return", "             return"
    ),
    "another system's line ends": CODE.replace("\n", "\r\n"),
    "a mark of UTF-8": "\ufeff" + CODE,
}
OTHER = {
    "a number": CODE.replace("+= 1", "+= 2"),
    "another block": CODE.replace('        return """not', '            return """not'),
    "a text": CODE.replace("a docstring", "one"),
    "within an f-string": CODE.replace("upper", "lower"),
    "what looks like a comment in a text": CODE.replace("no comment", "another"),
    "a type": CODE.replace('x: "A"', 'x: "B"'),
}


@pytest.mark.parametrize("name", [*SAME, *OTHER])
def test_what_moves_a_digest(name: str) -> None:
    code = SAME.get(name) or OTHER[name]
    assert code != CODE
    assert (code_digest(code.encode()) == DIGEST) == (name in SAME)


def test_kinds_of_digests() -> None:
    assert kind_of(DIGEST) == "tokens"
    old = digest_of_kind("bytes", b"x = 1\n")
    assert kind_of(old) == "bytes"
    assert old == hashlib.sha256(b"x = 1\n").hexdigest()[:16]
    unfinished = code_digest(b"def f(:\n")
    assert kind_of(unfinished) == "tokens"
    assert unfinished != code_digest(b"def f(: \n")


def _other_pythons() -> list[str]:
    """Interpreters of later versions that run here: on the path, or beside this one's version."""
    names = [f"python3.{minor}" for minor in range(12, 20)]
    beside = [str(path) for path in Path(sys.base_prefix).parent.glob("*/bin/python3.??")]
    found = []
    for name in [*filter(None, map(shutil.which, names)), *beside]:
        run = subprocess.run([name, "-c", "import tomllib"], capture_output=True, check=False)
        if run.returncode == 0 and not name.endswith(f"python3.{sys.version_info.minor}"):
            found.append(name)
    return found


def test_other_pythons_make_the_same_digests(tmp_path: Path) -> None:
    """Of a difficult file and of one of the project."""
    pythons = _other_pythons()
    if not pythons:
        pytest.skip("no other Python is installed here")
    file = Path(digest.__file__)
    (tmp_path / "difficult.py").write_text(CODE, "utf-8")
    code = (
        "import pathlib, runpy, sys\n"
        "digest = runpy.run_path(sys.argv[1])['code_digest']\n"
        "print(*[digest(pathlib.Path(path).read_bytes()) for path in sys.argv[1:]])\n"
    )
    command = ["-c", code, str(file), str(tmp_path / "difficult.py")]
    expected = f"{code_digest(file.read_bytes())} {DIGEST}\n"
    for python in pythons:
        assert subprocess.check_output([python, *command], text=True) == expected


def _files(folder: Path, contents: dict[str, str]) -> None:
    for name, text in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")


def test_files_that_a_file_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contents = {
        "here/mine.py": "import shapes.round.circle\nfrom shapes import square\nimport torch\n",
        "here/shapes/__init__.py": "",
        "here/shapes/round/circle.py": "from ..lines import arc\nfrom . import points\n",
        "here/shapes/round/points.py": "import mine, elsewhere\n",
        "here/shapes/lines.py": "from looplab import Task\ndef arc(): import late",
        "here/shapes/square.py": "",
        "here/late.py": "",
        "here/not_imported.py": "",
        "there/elsewhere.py": "def unfinished(:",
    }
    _files(tmp_path, contents)
    monkeypatch.syspath_prepend(tmp_path / "there")
    del contents["here/not_imported.py"]
    names = {name.partition("/")[2] for name in contents}
    found = imported_code(tmp_path / "here" / "mine.py")
    assert set(found) == names
    assert found["elsewhere.py"] == b"def unfinished(:"


def test_a_module_within_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named from where the package is imported; an installed one is followed in itself."""
    package = {"own/__init__.py": "", "own/tasks.py": "from .more import f\nimport numpy, other\n"}
    _files(tmp_path, {**package, "own/more.py": "", "other.py": ""})
    names = {"own/__init__.py", "own/tasks.py", "own/more.py", "other.py"}
    assert set(imported_code(tmp_path / "own" / "tasks.py", "own.tasks")) == names
    installed = tmp_path / "site-packages"
    shutil.copytree(tmp_path / "own", installed / "own")
    (installed / "other.py").write_text("")
    found = imported_code(installed / "own" / "tasks.py", "own.tasks")
    assert set(found) == names - {"other.py"}


class Notebook:
    """A module without a file, whose cells are found as a notebook's are."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.module = ModuleType("notebook_of_a_test")
        monkeypatch.setitem(sys.modules, self.module.__name__, self.module)
        self.cells = 0

    def run(self, code: str) -> None:
        self.cells += 1
        name = f"<cell {self.cells}>"
        linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
        exec(compile(code, name, "exec"), vars(self.module))

    def sources(self, name: str) -> dict[str, str]:
        return sources_of(things=[getattr(self.module, name)])


CELLS = {
    "helper": "def inner(x): return x + shift\ndef helper(x): return inner(x)  # one\n",
    "constants": "from functools import partial\nimport numpy as np\nshift = 1\nlevels = [1, 2]\n",
    "task": (
        "class Own:\n"
        "    def outputs(self, x): return [helper(x) for _ in levels] + [tools.double(x)]\n"
        "    @property\n"
        "    def divisor(self): return table.sum()\n"
    ),
    "table": "table = np.arange(3)\n",
    "solver": "def solver(xs, ys, queries): return helper(ys)\nsolve = partial(solver, ys=0)\n",
    "elsewhere": "def other(x): return x\nresults = []\n",
}


def _notebook(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Notebook:
    _files(folder, {"tools_of_a_test.py": "def double(x): return 2 * x\n"})
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "tools_of_a_test", raising=False)
    notebook = Notebook(monkeypatch)
    notebook.run("import tools_of_a_test as tools, torch\n")
    for code in CELLS.values():
        notebook.run(code)
    return notebook


@pytest.mark.parametrize(
    ("cell", "edited", "moves"),
    [
        ("helper", CELLS["helper"].replace("x + shift", "x - shift"), "task and solver"),
        ("helper", CELLS["helper"].replace("# one", "# another"), ""),
        ("constants", CELLS["constants"].replace("shift = 1", "shift = 2"), "task and solver"),
        ("constants", CELLS["constants"].replace("[1, 2]", "[2, 1]"), "task"),
        ("table", "table = np.arange(1, 4)\n", "task"),
        ("task", CELLS["task"].replace("table.sum", "table.mean"), "task"),
        ("solver", CELLS["solver"].replace("ys=0", "ys=1"), "solver"),
        ("elsewhere", CELLS["elsewhere"].replace("return x", "return -x"), ""),
    ],
)
def test_what_a_notebook_defines(
    cell: str, edited: str, moves: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A class or function is what it calls, in whichever cell; not what else stands there."""
    notebook = _notebook(monkeypatch, tmp_path)
    before: dict[str, Any] = {name: notebook.sources(name) for name in ("Own", "solve")}
    assert set(outside_code(vars(notebook.module)["Own"])) == {"tools_of_a_test.py"}
    assert edited != CELLS[cell]
    notebook.run(edited)
    if cell == "constants":
        notebook.run(CELLS["solver"])
    assert (notebook.sources("Own") != before["Own"]) == ("task" in moves)
    assert (notebook.sources("solve") != before["solve"]) == ("solver" in moves)


def test_cells_of_a_module_that_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a tool runs cells in a dictionary of its own."""
    notebook = Notebook(monkeypatch)
    monkeypatch.delitem(sys.modules, notebook.module.__name__)
    notebook.run("def helper(x): return x\n")
    notebook.run("class Own:\n    def outputs(self, x): return helper(x)\n")
    before = notebook.sources("Own")
    notebook.run("def helper(x): return -x\n")
    assert notebook.sources("Own") != before


def test_comments_in_the_project_measure_nothing_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The keys of kept numbers hold these digests."""
    from looplab.training.run_folder import sources

    file = tmp_path / "tasks" / "linear.py"
    shutil.copytree(HOME / "tasks", file.parent)
    monkeypatch.setattr(sources, "HOME", tmp_path)
    sources._files.cache_clear()
    before = sources_of("tasks")
    file.write_text(f'"""Another docstring."""\n\n# A comment.\n{file.read_text("utf-8")}', "utf-8")
    assert sources_of("tasks") == before
    file.write_text(file.read_text("utf-8") + "\nx = 1\n", "utf-8")
    assert {*sources_of("tasks").items()} - {*before.items()} == {
        ("tasks/linear.py", code_digest(file.read_bytes()))
    }
    sources._files.cache_clear()


@pytest.mark.parametrize(
    ("definition", "edited"),
    [
        ("thing = lambda x: (\n    x\n)\n", "thing = lambda x: (\n    -x\n)\n"),
        ("thing = torch.sin\n", "thing = torch.cos\n"),
        ("thing = nn.functional.relu\n", "thing = nn.functional.gelu\n"),
        ("thing = nn.Linear(3, 3)\n", "thing = nn.Linear(3, 3)\n"),  # other weights
        ("@functools.cache\ndef thing(): return 1\n", "@functools.cache\ndef thing(): return 2\n"),
        ("def thing(*, p=one): return p\n", "one = 2\ndef thing(*, p=one): return p\n"),
        ("class Kind: size = 1\nthing = Kind\n", "Kind.size = 2\n"),
        ("class Kind: pass\nthing = Kind()\nthing.size = 1\n", "thing.size = 2\n"),
        ("class Kind:\n    def f(self): return 1\nthing = Kind().f\n", "Kind.f = lambda self: 2\n"),
        ("thing = types.SimpleNamespace(size=1)\n", "thing.size = 2\n"),
        ("thing = (one, 1, 2)\none, two = 1, 2\n", "one, two = 2, 1\n"),
        ("thing = torch.float32\n", "thing = torch.float64\n"),
        ("thing = range(2)\n", "thing = range(3)\n"),
        ("thing = numpy.float32(1)\n", "thing = numpy.float32(2)\n"),
        ("thing = torch.ones(2).bfloat16()\n", "thing = torch.zeros(2).bfloat16()\n"),
        ("thing = fractions.Fraction(1, 3)\n", "thing = fractions.Fraction(2, 3)\n"),
    ],
)
def test_what_a_cell_names_of_every_kind(
    definition: str, edited: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook = Notebook(monkeypatch)
    notebook.run(
        "import fractions, functools, numpy, types, torch\nfrom torch import nn\none, two = 1, 2\n"
    )
    notebook.run(definition)
    notebook.run("class Own:\n    def outputs(self, x): return thing, one, two\n")
    before = notebook.sources("Own")
    assert notebook.sources("Own") == before
    notebook.run(edited)
    assert notebook.sources("Own") != before


def test_a_module_that_a_cell_calls_is_as_it_was_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until importlib.reload, which a notebook's %autoreload calls, too."""
    notebook = _notebook(monkeypatch, tmp_path)
    before = notebook.sources("Own")
    (tmp_path / "tools_of_a_test.py").write_text("def double(x): return x + x  # as before\n")
    assert notebook.sources("Own") == before
    assert edited_files("tools_of_a_test") == ["tools_of_a_test.py"]
    notebook.run("import importlib\nimportlib.reload(tools)\n")
    assert notebook.sources("Own") != before
    assert not edited_files("tools_of_a_test")


def test_a_task_in_a_cell_that_is_run_again_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing has changed, and nothing is said to have; after an edit the run is of other code."""
    notebook = Notebook(monkeypatch)
    task = (
        "from dataclasses import dataclass\n"
        "from looplab.tasks import register_task\n"
        "from looplab.tasks.linear import Linear\n"
        "@register_task('in_a_cell')\n"
        "@dataclass(frozen=True)\n"
        "class InACell(Linear):\n"
        "    def outputs(self, xs, parameters): return super().outputs(curve(xs), parameters)\n"
    )
    cells = ["def curve(xs): return xs\n", task]
    near = tiny_config(tmp_path)
    config = replace(
        near,
        task=replace(near.task, name="in_a_cell", settings={}),
        training=replace(near.training, steps=1),
    )
    for code in cells * 2:
        notebook.run(code)
    run = train(config)
    for code in cells:
        notebook.run(code)
    assert train(config).path == run.path
    assert "trained already" in (said := capsys.readouterr().out)
    assert "since it began" not in said
    notebook.run("def curve(xs): return xs.sin()\n")
    made_with = RunFolder(run.path).made_with()
    assert other_code(made_with, config) == ["cells"]


def test_a_class_of_a_plain_shell_has_no_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of one name would be taken for one. What a cell says of the project is not a user's."""
    notebook = Notebook(monkeypatch)
    exec("class Own:\n    def outputs(self, x): return x\n", vars(notebook.module))
    with pytest.raises(OSError, match="Own has no source: define it in a file or in a notebook"):
        outside_source(vars(notebook.module)["Own"])
    notebook.run(
        "import looplab\nclass Own:\n    def outputs(self, x): return looplab.Prompts(x, x)\n"
    )
    assert not outside_code(vars(notebook.module)["Own"])
