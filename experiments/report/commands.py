"""The command behind a result, as one can paste it into a shell."""

from __future__ import annotations

import re
import shlex
from contextlib import suppress
from typing import Any

from reloop.conf.words import run_py

_ROOMS = "reloop|probing|openml_eval|evaluation|experiments|benchmarks"
_MODULE = re.compile(rf"(?:.*/)?((?:{_ROOMS})(?:/\w+)*)")


def as_typed(recorded: Any) -> str:
    """The command that environment.json recorded (a script's path and its words) as it is typed in
    the project's folder; empty where none is known."""
    if not isinstance(recorded, str) or not recorded.strip():
        return ""
    script, *words = recorded.split(" ")
    with suppress(ValueError):  # an apostrophe of an earlier version's, which did not quote
        script, *words = shlex.split(recorded)
    if script.rpartition("/")[2] == "run.py":
        return run_py(*words)
    if script.rpartition("/")[2] == "reloop":
        return shlex.join(["reloop", *words])
    module = _MODULE.fullmatch(script.removesuffix(".py").removesuffix("/__main__"))
    if module:
        return shlex.join(["python", "-m", module[1].replace("/", "."), *words])
    return shlex.join([script, *words])
