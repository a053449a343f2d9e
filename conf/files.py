"""The YAML files of conf/: how they are read, and the names that they give; and the folder of what
outlives a run. No torch here.

read_values("scale/small")["loops"]          # {"b": 12, "T": 4}
"""

import os
import re
from collections.abc import Mapping
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from .plugins import added_tasks

CACHE = "LOOPLAB_CACHE"  # a variable of the environment
_FOLDER = Path(__file__).parent


class Loader(yaml.SafeLoader):
    """Plain values; 1e-3 is a number although it has no point."""


# PyYAML follows YAML 1.1, where a float without a point is a text.
Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?[0-9][0-9_]*(\.[0-9_]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)


def cache_folder() -> Path | None:
    """The folder of what is made once for many runs: `$LOOPLAB_CACHE`, else ~/.cache/looplab. None
    for a user without a home, as containers have them, where the variable is not set."""
    try:
        return Path(os.environ.get(CACHE) or "~/.cache/looplab").expanduser()
    except RuntimeError:
        return None


def read_yaml(text: str) -> Any:
    """The value of a YAML text; raises yaml.YAMLError or ValueError."""
    return yaml.load(text, Loader)


@lru_cache
def read_values(name: str) -> Mapping[str, Any]:
    """The values in a file of conf/; none where it does not exist."""
    path = _FOLDER / f"{name}.yaml"
    return read_yaml(path.read_text(encoding="utf-8")) or {} if path.exists() else {}


def choices(group: str) -> list[str]:
    """The names that `task`, `model`, `scale`, `recipe` or `experiment` may take: the files of
    conf/<group>/, and the tasks that were registered outside the project."""
    names = {path.stem for path in (_FOLDER / group).glob("*.yaml")}
    if group == "task":
        names.update(added_tasks())
    return sorted(names)


def own_settings(name: str) -> dict[str, Any] | None:
    """A task's own settings with their defaults: from its file, or from its class where it was
    registered outside the project; None for an unknown task."""
    values = read_values(f"task/{name}") or added_tasks().get(name)
    if values is None:
        return None
    # What `read_values` has in its cache must not be changed by a caller.
    return deepcopy({key: default for key, default in values.items() if key != "name"})
