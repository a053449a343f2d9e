"""Every name of Triton that the kernels use and its documentation lacks, in one place. In another
version one may be gone: tests/models/kernels/test_private_triton.py then fails by its name."""

from triton import knobs
from triton.runtime.driver import driver


def is_interpreted() -> bool:
    """Says whether kernels run in Triton's interpreter, as TRITON_INTERPRET=1 has them."""
    return bool(knobs.runtime.interpret)


def capability() -> int:
    """Ten times the compute capability of the current device."""
    return int(driver.active.get_current_target().arch)
