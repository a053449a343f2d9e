"""Imports point one way (the rooms' floors), and what must start fast or alone does; the wheel,
installed away from the checkout, beside folders of somebody else's with our names."""

import ast
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from looplab import __version__
from tests.conftest import HOME, printed
from tests.training.tiny import WORDS

# What each room may import of the project, beside itself. `conf` here means its plain half.
MAY_USE = {
    "conf": set(),
    "tasks": {"conf"},
    "models": {"conf"},
    "curricula": {"conf"},
    "training": {"conf", "tasks", "models", "curricula"},
    "evaluation": {"conf", "tasks", "models", "curricula", "training"},
    "show": {"conf", "tasks", "models", "curricula", "training", "evaluation"},
    "probing": {"conf", "tasks", "models", "curricula", "training", "evaluation", "show"},
    "openml_eval": {"conf", "tasks", "models", "curricula", "training", "evaluation", "show"},
    "experiments": {
        *("conf", "tasks", "models", "curricula", "training", "evaluation", "show", "probing"),
        "openml_eval",
    },
}
# Commands show what they have measured.
SHOWS = {
    HOME / "evaluation" / "export" / "command.py",
    HOME / "evaluation" / "text" / "command.py",
}
# The half of conf that is the command line's: only run.py may reach for it, and what takes run.py's
# settings beside it: a command, and files of conf/experiment/.
COMMAND_LINE = {"looplab.conf.compose", "looplab.conf.help"}
TAKES_ITS_SETTINGS = {
    HOME / "openml_eval" / "settings.py",
    HOME / "experiments" / "command.py",
    HOME / "experiments" / "grid.py",
    HOME / "experiments" / "definition.py",
}
ROOMS = (*MAY_USE, "benchmarks")
FILES = [
    *(path for room in (*ROOMS, "tests") for path in sorted((HOME / room).rglob("*.py"))),
    HOME / "run.py",
]


def imported(path: Path) -> set[str]:
    """The absolute names of all modules that a file imports, at any depth, but for types alone."""
    names = set()
    package = ("looplab", *path.relative_to(HOME).parent.parts)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_types = [n for n in tree.body if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.dump(n)]
    apart = {each for block in for_types for each in ast.walk(block)}
    for node in set(ast.walk(tree)) - apart:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            names.add(".".join(part for part in (base, node.module) if part))
    return names


@pytest.mark.parametrize("room", sorted(MAY_USE))
def test_a_room_imports_only_rooms_below_it(room: str) -> None:
    for path in (HOME / room).rglob("*.py"):
        for name in imported(path):
            assert name.partition(".")[0] != "run", f"{path.relative_to(HOME)} imports {name}"
            if not name.startswith("looplab."):
                continue
            top = name.split(".")[1]
            may_use = MAY_USE[room] | {room} | ({"show"} if path in SHOWS else set())
            assert top in may_use, f"{path.relative_to(HOME)} imports {name}"
            allowed = top == room or name not in COMMAND_LINE or path in TAKES_ITS_SETTINGS
            assert allowed, f"{path.relative_to(HOME)} imports {name}"


@pytest.mark.parametrize("room", sorted(MAY_USE.keys() - {"conf"}))
def test_no_module_is_in_a_circle_not_even_by_imports_in_functions(room: str) -> None:
    """Of conf one is: `Config.of` in schema.py composes."""
    files = [path for path in (HOME / room).rglob("*.py") if path.name != "__init__.py"]
    names = {path: ".".join(path.relative_to(HOME).with_suffix("").parts) for path in files}
    known = {f"looplab.{name}" for name in names.values()}
    order = TopologicalSorter({f"looplab.{names[path]}": imported(path) & known for path in files})
    assert {*order.static_order()} == known  # or it raises CycleError


def test_every_room_is_on_a_floor_and_in_the_package() -> None:
    rooms = {path.name for path in HOME.iterdir() if (path / "__init__.py").exists()}
    assert rooms - {"tests", "benchmarks", "looplab"} == set(MAY_USE)
    packaged = (HOME / "setup.py").read_text(encoding="utf-8")
    assert all(f'"{room}"' in packaged for room in rooms - {"tests", "looplab"})


@pytest.mark.parametrize("room", ["conf", "curricula", "models", "tasks", "training"])
def test_a_room_imported_by_its_bare_name_says_its_own(room: str) -> None:
    code = f"import {room}.model" if room == "models" else f"import {room}"
    done = subprocess.run([sys.executable, "-c", code], cwd=HOME, capture_output=True, text=True)
    assert done.stderr.splitlines()[-1].startswith("ImportError: ")
    assert f"from looplab.{room} import" in done.stderr.splitlines()[-1]


def test_no_module_is_loaded_under_two_names() -> None:
    """`python -m probing` makes a package `probing` beside `looplab.probing`: what it runs says
    `from looplab.probing…`, never `from .`, and nothing says `from probing…`."""
    for path in FILES:
        bare = {name for name in imported(path) if name.partition(".")[0] in ROOMS}
        assert not bare, f"{path.relative_to(HOME)} imports {bare}"
        text = path.read_text(encoding="utf-8")
        if '\nif __name__ == "__main__"' in text:
            assert not re.search(r"^\s*from \.", text, re.MULTILINE), path.relative_to(HOME)


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("looplab.conf.compose, looplab.conf.help, run", ["torch"]),
        (
            "looplab.training.loop, looplab.evaluation.evaluate_run, looplab.probing.probe",
            ["wandb", "triton"],
        ),
        (
            "looplab.probing.dynamics.__main__, looplab.openml_eval.__main__, looplab.reference",
            ["torch", "openml", "pandas", "sklearn"],
        ),
        (
            "looplab.experiments.scaling_law.__main__, "
            "looplab.experiments.command, looplab.evaluation.runs_table",
            ["torch", "sklearn", "matplotlib", "pandas"],
        ),
        ("looplab.openml_eval.estimators, looplab.openml_eval.fetch", ["wandb", "arff", "openml"]),
        ("looplab.training.loop", ["sklearn", "matplotlib", "pandas"]),
        ("looplab.evaluation.evaluate_run", ["sklearn", "pandas"]),  # half of its seconds
    ],
)
def test_imports_stay_light(module: str, unwanted: list[str]) -> None:
    code = f"import sys, {module}; print([m for m in {unwanted} if m in sys.modules])"
    assert printed("-c", code) == "[]\n"


IMPORTS = (
    "from looplab import Config, LoopedClassifier, evaluate, load_run, register_task, train\n"
    "import models, sys\n"
    "assert models.__file__.startswith(sys.argv[1])\n"
    "print(Config.of('task=sparse_linear', 'seed=1').seed)\n"
)
ESTIMATORS = (
    "import numpy as np; from looplab import LoopedClassifier, LoopedRegressor\n"
    "x = np.random.default_rng(0).normal(size=(30, 3)); y = x[:, 0] > 0\n"
    "print(LoopedClassifier().fit(x, y).score(x, y) > 0.6)\n"
    "print(LoopedRegressor().fit(x, x[:, 0]).score(x, x[:, 0]) > 0.5)\n"
)


def _unneeded(folder: str, names: list[str]) -> set[str]:
    """What a copy of the checkout does without."""
    made = {"runs", "report", "build", "openml_data"} if Path(folder) == HOME else set()
    return {name for name in names if name[0] == "." or name == "__pycache__"} | made & {*names}


def test_pins_are_in_their_ranges_and_every_pip_finds_the_extras() -> None:
    """An extra's name has letters alone: pip 23 asks for lm_eval where the wheel says lm-eval."""
    project = tomllib.loads((HOME / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    assert all(name.isalpha() for name in extras)
    ranges = [Requirement(line) for line in sum(extras.values(), project["dependencies"])]
    lines = [
        line.partition("#")[0]
        for path in HOME.glob("requirements*.txt")
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    pins = {pin.name: str(pin.specifier)[2:] for pin in map(Requirement, filter(str.strip, lines))}
    assert {"openml", "wandb"} <= pins.keys()
    for wanted in ranges:
        assert "==" not in str(wanted)
        assert wanted.name not in pins or wanted.specifier.contains(pins[wanted.name])


@pytest.mark.slow
def test_the_wheel_works_beside_folders_of_the_same_names(tmp_path: Path) -> None:
    """Those of somebody else's project: imports, commands, shipped models and estimators."""
    source, installed, elsewhere = (tmp_path / name for name in ("source", "installed", "else"))
    shutil.copytree(HOME, source, ignore=_unneeded)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = ["wheel", ".", "--no-deps", "--no-build-isolation", "--no-index", "-w", "wheels"]
    subprocess.run([*pip, *build], cwd=source, check=True)
    (wheel,) = (source / "wheels").iterdir()
    into = ["install", "--no-deps", "--no-index", "--target", str(installed), str(wheel)]
    subprocess.run([*pip, *into], cwd=source, check=True)
    for name in ("models", "tasks", "conf", "training"):
        (elsewhere / name).mkdir(parents=True)
        (elsewhere / name / "__init__.py").touch()

    def python(*words: str) -> str:
        return printed(*words, cwd=elsewhere, PYTHONPATH=str(installed))

    assert python("-c", IMPORTS, str(elsewhere)) == "1\n"
    assert python("-c", ESTIMATORS) == "True\nTrue\n"
    said = python("-m", "looplab", "task=linear", "device=cpu", *WORDS)
    assert "step 1/1" in said
    assert (elsewhere / "runs").is_dir()
    shipped = ("action=evaluate", "run=shipped/linear", "evaluation.prompts=8", "device=cpu")
    assert "least squares" in python("-m", "looplab", *shipped)
    for module in ("probing", "openml_eval", "benchmarks.step"):
        assert "python -m" in python("-m", f"looplab.{module}", "--help")


@pytest.mark.slow
def test_make_setup_leaves_a_checkout_that_is_found_from_any_folder(tmp_path: Path) -> None:
    """By the Makefile's own line, in an environment of its own; rooms are no packages of theirs."""
    source, environment, elsewhere = (tmp_path / name for name in ("source", "env", "else"))
    shutil.copytree(HOME, source, ignore=_unneeded)
    elsewhere.mkdir()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    here = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "here.pth").write_text("\n".join(here), encoding="utf-8")
    (line,) = re.findall(r"@\$\(PIP\) (install .*--editable \.)", (source / "Makefile").read_text())
    python = environment / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--quiet", "--python", str(python)]
    subprocess.run([*pip, *line.split()], cwd=source, check=True)
    assert not {path.name for path in source.iterdir()} & {"build", "looplab.egg-info"}
    code = "import looplab.tasks as t, importlib.util as u; print(t.__file__, u.find_spec('tasks'))"
    commands: dict[str, list[str | Path]] = {
        f"{source / 'tasks' / '__init__.py'} None\n": [python, "-c", code],
        f"looplab {__version__}\n": [python.with_name("looplab"), "--version"],
    }
    for expected, command in commands.items():
        done = subprocess.run(command, cwd=elsewhere, check=True, capture_output=True, text=True)
        assert done.stdout == expected


@pytest.mark.slow
def test_a_source_distribution_holds_the_rooms_run_py_and_the_tests(tmp_path: Path) -> None:
    source = tmp_path / "project"
    shutil.copytree(HOME, source, ignore=_unneeded)
    build = f"from setuptools import build_meta; build_meta.build_sdist({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=source, check=True, capture_output=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    wanted = {"run.py", "Makefile", "conf/task/linear.yaml", "tests/conftest.py"}
    assert wanted | {"docs/guide/own.md"} <= names
