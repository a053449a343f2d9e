"""Imports point one way (the rooms' floors), and what must start fast or alone does."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import HOME

# What each room may import of the project, beside itself. `conf` here means its plain half.
MAY_USE = {
    "conf": set(),
    "tasks": {"conf"},
    "models": {"conf"},
    "curricula": {"conf"},
    "training": {"conf", "tasks", "models", "curricula"},
    "evaluation": {"conf", "tasks", "models", "curricula", "training"},
    "probing": {"conf", "tasks", "models", "curricula", "training", "evaluation"},
    "openml_eval": {"conf", "tasks", "models", "curricula", "training", "evaluation"},
    "experiments": {
        *("conf", "tasks", "models", "curricula", "training", "evaluation", "probing"),
        "openml_eval",
    },
}
# The half of conf that is the command line's: only run.py may reach for it, and what takes run.py's
# settings beside it: a command, and files of conf/experiment/.
COMMAND_LINE = {"reloop.conf.compose", "reloop.conf.help"}
TAKES_ITS_SETTINGS = {
    HOME / "openml_eval" / "__main__.py",
    HOME / "experiments" / "grids" / "command.py",
    HOME / "experiments" / "grids" / "run.py",
    HOME / "experiments" / "named" / "members.py",
    HOME / "experiments" / "named" / "measures" / "openml.py",
}
ROOMS = (*MAY_USE, "benchmarks")
FILES = [
    *(path for room in (*ROOMS, "tests") for path in sorted((HOME / room).rglob("*.py"))),
    HOME / "run.py",
]


def imported(path: Path) -> set[str]:
    """The absolute names of all modules that a file imports, at any depth."""
    names = set()
    package = ("reloop", *path.relative_to(HOME).parent.parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
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
            if not name.startswith("reloop."):
                continue
            top = name.split(".")[1]
            assert top in MAY_USE[room] | {room}, f"{path.relative_to(HOME)} imports {name}"
            allowed = top == room or name not in COMMAND_LINE or path in TAKES_ITS_SETTINGS
            assert allowed, f"{path.relative_to(HOME)} imports {name}"


def test_every_room_is_on_a_floor_and_in_the_package() -> None:
    rooms = {path.name for path in HOME.iterdir() if (path / "__init__.py").exists()}
    assert rooms - {"tests", "benchmarks", "reloop"} == set(MAY_USE)
    links = {path.name: path.resolve() for path in (HOME / "reloop").iterdir() if path.is_symlink()}
    assert links == {room: HOME.resolve() / room for room in rooms - {"tests", "reloop"}}


def test_no_module_is_loaded_under_two_names() -> None:
    """`python -m probing` makes a package `probing` beside `reloop.probing`: what it runs says
    `from reloop.probing…`, never `from .`, and nothing says `from probing…`."""
    for path in FILES:
        bare = {name for name in imported(path) if name.partition(".")[0] in ROOMS}
        assert not bare, f"{path.relative_to(HOME)} imports {bare}"
        text = path.read_text(encoding="utf-8")
        if '\nif __name__ == "__main__"' in text:
            assert not re.search(r"^\s*from \.", text, re.MULTILINE), path.relative_to(HOME)


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        (
            "reloop.conf.build, reloop.conf.schema, reloop.conf.compose, reloop.conf.help, run",
            ["torch"],
        ),
        (
            "reloop.training.loop, reloop.evaluation.evaluate_run, reloop.probing.protocols",
            ["hydra", "omegaconf", "wandb", "openml", "triton"],
        ),
        (
            "reloop.conf.command, reloop.conf.words, reloop.probing.dynamics.__main__, "
            "reloop.probing.settings, reloop.experiments.stability.__main__, "
            "reloop.openml_eval.__main__, reloop.reference",
            ["torch", "hydra", "omegaconf", "openml", "pandas", "sklearn"],
        ),
        (
            "reloop.experiments.scaling_law.__main__, reloop.experiments.iso_depth.__main__, "
            "reloop.experiments.report.command, reloop.experiments.report.write, "
            "reloop.experiments.named.command, reloop.experiments.runs.command, "
            "reloop.experiments.runs.listing",
            ["torch", "hydra", "sklearn", "matplotlib"],
        ),
        ("reloop.openml_eval.estimators", ["hydra", "omegaconf", "wandb", "openml"]),
        ("reloop.training.loop", ["sklearn", "matplotlib", "pandas"]),
        ("reloop.evaluation.evaluate_run", ["sklearn", "pandas"]),  # half of its seconds
    ],
)
def test_imports_stay_light(module: str, unwanted: list[str]) -> None:
    code = f"import sys, {module}; print([m for m in {unwanted} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=HOME, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
