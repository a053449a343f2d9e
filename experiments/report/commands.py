"""The command behind a result, as one can paste it into a shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any

_ROOMS = "reloop|probing|openml_eval|evaluation|experiments|benchmarks"
_MODULE = re.compile(rf"(?:.*/)?((?:{_ROOMS})(?:/\w+)*)")


def shell(words: Sequence[str]) -> str:
    """Words as a command, quoted where a shell needs it."""
    return shlex.join(words)


def run_py(*words: str) -> str:
    """A command of run.py."""
    return shell(["python", "run.py", *words])


def as_typed(recorded: Any) -> str:
    """The command that environment.json recorded (a script's path and its words) as it is typed in
    the project's folder; empty where none is known."""
    if not isinstance(recorded, str) or not recorded.strip():
        return ""
    script, *words = recorded.split(" ")
    if script.rpartition("/")[2] == "run.py":
        return run_py(*words)
    if script.rpartition("/")[2] == "reloop":
        return shell(["reloop", *words])
    module = _MODULE.fullmatch(script.removesuffix(".py").removesuffix("/__main__"))
    if module:
        return shell(["python", "-m", module[1].replace("/", "."), *words])
    return shell([script, *words])
