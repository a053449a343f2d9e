"""A package's names imported when they are asked for, so that commands answer mistakes and --help
without torch.

__getattr__ = importer(__name__, {"train": ".train"})
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # typing's own takes as long to import as an entry point's first lines
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


def importer(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package whose names are in these modules, given from the package
    (".train") or whole."""

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(modules[name], package), name)

    return get
