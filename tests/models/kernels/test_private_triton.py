"""Names of Triton without documentation still do what the kernels take them for. A test that fails
names one."""

import os
from types import SimpleNamespace

import pytest
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver

from looplab.models.kernels import private_triton


def test_knobs_runtime_interpret() -> None:
    assert private_triton.is_interpreted() == (os.environ["TRITON_INTERPRET"] == "1")


def test_driver_active_get_current_target_arch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the driver that is active, and of a target as Triton makes it."""
    active = SimpleNamespace(get_current_target=lambda: GPUTarget("cuda", 86, 32))
    monkeypatch.setattr(driver, "_active", active)
    assert private_triton.capability() == 86


def test_constexpr_value_and_pointer_type_element_ty() -> None:
    assert tl.constexpr(3).value == 3
    assert tl.pointer_type(tl.bfloat16).element_ty == tl.bfloat16
