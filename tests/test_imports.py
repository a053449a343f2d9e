"""Imports point one way (the rooms' floors), and what must start fast or alone does."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

HOME = Path(__file__).parent.parent
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
}
# The half of conf that is the command line's: only run.py may reach for it, and the one command
# beside it that takes run.py's settings.
COMMAND_LINE = {"conf.compose", "conf.help"}
TAKES_ITS_SETTINGS = HOME / "openml_eval" / "__main__.py"


def imported(path: Path) -> set[str]:
    """The absolute names of all modules that a file imports, at any depth."""
    names = set()
    package = path.relative_to(HOME).parent.parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            names.add(".".join(part for part in (base, node.module) if part))
    return names


@pytest.mark.parametrize("room", sorted(MAY_USE))
def test_a_room_imports_only_rooms_below_it(room: str) -> None:
    rooms = {path.name for path in HOME.iterdir() if (path / "__init__.py").exists()}
    for path in (HOME / room).rglob("*.py"):
        for name in imported(path):
            top = name.partition(".")[0]
            if top in rooms | {"run"} and top != room:
                assert top in MAY_USE[room], f"{path.relative_to(HOME)} imports {name}"
                allowed = name not in COMMAND_LINE or path == TAKES_ITS_SETTINGS
                assert allowed, f"{path.relative_to(HOME)} imports {name}"


def test_every_room_is_on_a_floor() -> None:
    rooms = {path.name for path in HOME.iterdir() if (path / "__init__.py").exists()}
    assert rooms - {"tests", "benchmarks"} == set(MAY_USE)


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("conf.build, conf.checks, conf.schema, conf.compose, conf.help, run", ["torch"]),
        (
            "training, evaluation, probing.protocols, probing.prompts",
            ["hydra", "omegaconf", "wandb", "openml", "triton"],
        ),
        (
            "conf.command, conf.words, probing.dynamics, probing.settings, probing.stability, "
            "openml_eval.__main__",
            ["torch", "hydra", "openml", "pandas", "sklearn"],
        ),
        (
            "evaluation.scaling_law, evaluation.iso_depth",
            ["torch", "hydra", "sklearn", "matplotlib"],
        ),
        ("openml_eval.estimators", ["hydra", "omegaconf", "wandb", "openml"]),
        # scikit-learn imports pandas where it is installed, and with it evaluation does.
        ("training", ["sklearn", "matplotlib", "pandas"]),
    ],
)
def test_imports_stay_light(module: str, unwanted: list[str]) -> None:
    code = f"import sys, {module}; print([m for m in {unwanted} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=HOME, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
