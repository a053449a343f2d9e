"""The tasks that prompts come from. All modules of this folder are imported, to register tasks."""

if "." not in __name__:
    raise ImportError("tasks is a part of looplab: from looplab.tasks import …")

from importlib import import_module
from pkgutil import iter_modules

from .random_source import RandomSource
from .shift import SHIFTS, Shift, Shifted, register_shift
from .task import Prompts, Task, make_task, register_task, task_class

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = [
    "SHIFTS",
    "Prompts",
    "RandomSource",
    "Shift",
    "Shifted",
    "Task",
    "make_task",
    "register_shift",
    "register_task",
    "task_class",
]
