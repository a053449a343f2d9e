"""The room's modules stand in an order in which each imports only those before it."""

from graphlib import TopologicalSorter

from tests.conftest import HOME
from tests.test_imports import imported


def test_no_module_is_in_a_circle_not_even_by_imports_in_functions() -> None:
    files = [path for path in (HOME / "training").rglob("*.py") if path.name != "__init__.py"]
    names = {path: ".".join(path.relative_to(HOME).with_suffix("").parts) for path in files}
    known = {f"looplab.{name}" for name in names.values()}
    order = TopologicalSorter({f"looplab.{names[path]}": imported(path) & known for path in files})
    assert {*order.static_order()} == known  # or it raises CycleError
