"""Imports when they are asked for: of a package's names, so that commands answer mistakes and
--help without torch, and of optional packages.

__getattr__, __dir__ = importer(__name__, {"train": ".train"})
"""

from __future__ import annotations

import sys
from importlib import import_module

TYPE_CHECKING = False  # typing's own takes as long to import as an entry point's first lines
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


def importer(
    package: str, modules: Mapping[str, str], gone: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and the `__dir__` of a package whose names are in these modules, given from
    the package (".train") or whole; of a name that is `gone` it says what takes its place."""

    def get(name: str) -> Any:
        if gone and name in gone:
            raise ImportError(f"{package}.{name} {gone[name]}")
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(modules[name], package), name)

    def names() -> list[str]:
        own_names = [name for name in vars(sys.modules[package]) if name.startswith("__")]
        return sorted(own_names + list(modules))

    return get, names


def optional(key: str, package: str, attribute: str, install: str) -> Any:
    """An optional package, of which this attribute is used. Raises ConfigError for the setting that
    needs it where it is not installed or cannot be loaded. So it does where another thing has its
    name, as the folder wandb/ that wandb itself makes."""
    from .mistakes import ConfigError, one_line

    try:
        module = import_module(package)
        getattr(module, attribute)
    except Exception as error:  # a package that does not fit the others raises any kind
        problem = f"which cannot be loaded ({one_line(error)}); pip install {install}"
        raise ConfigError(key, f"needs {package}, {problem}") from None
    return module
