"""The rooms of a checkout, which are the folders beside the package; in an installed one they are
within it.

Nothing else of a checkout, such as setup.py and tests/, becomes a module of the package.
"""

import os
import sys
from importlib.machinery import ModuleSpec, PathFinder

_PACKAGE = os.path.dirname(os.path.abspath(__file__))
_HOME = os.path.dirname(_PACKAGE)
ROOMS = (
    "benchmarks",
    "conf",
    "curricula",
    "evaluation",
    "experiments",
    "models",
    "openml_eval",
    "probing",
    "show",
    "tasks",
    "training",
)


class _Rooms:
    """Finds the rooms beside the package."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        package, _, room = name.partition(".")
        is_room = package == "looplab" and room in ROOMS
        return PathFinder.find_spec(name, [_HOME]) if is_room else None


if not os.path.isdir(os.path.join(_PACKAGE, "models")):
    # First, so that a checkout's rooms are not those of another one that is installed.
    sys.meta_path.insert(0, _Rooms)
