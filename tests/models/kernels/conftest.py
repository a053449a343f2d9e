"""What the kernels' tests share: the device, the precisions, and memory filled with NaN."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

if TYPE_CHECKING:
    from looplab.models.kernels.common import Compute

GPU = torch.cuda.is_available()


class _NoTriton(pytest.Module):
    """A test module that is not imported."""

    def collect(self) -> Iterable[pytest.Item]:
        pytest.skip("Triton is not installed: its kernels are not tested", allow_module_level=True)


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Module | None:
    """Skips all modules of this folder where they could not import Triton."""
    return None if find_spec("triton") else _NoTriton.from_parent(parent, path=module_path)


@pytest.fixture
def device() -> torch.device:
    """Where kernels run."""
    return torch.device("cuda" if GPU else "cpu")


# The interpreter multiplies TF32 exactly: on a CPU it would be float32 once more.
@pytest.fixture(
    params=["ieee", pytest.param("tf32", marks=pytest.mark.skipif(not GPU, reason="GPU")), "bf16"]
)
def compute(request: pytest.FixtureRequest) -> Compute:
    """Each precision of products."""
    from looplab.models.kernels.common import Compute

    dtype = torch.bfloat16 if request.param == "bf16" else torch.float32
    return Compute(dtype, tf32=request.param == "tf32")


@pytest.fixture(autouse=True)
def _poisoned() -> Iterator[None]:
    """PyTorch fills what it hands out uninitialised with NaN, so that no element that a kernel
    leaves out, or reads too early, goes unseen."""
    # That comes with the deterministic mode, all of which PyTorch's own attention cannot keep.
    torch.use_deterministic_algorithms(True, warn_only=True)
    assert torch.empty(1).isnan()
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture(autouse=True)
def _bounds_of_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton 3.6 interprets the bound of a kernel's loop by int() of an array with one element, an
    error since NumPy 2.4. Here it reads the element, as Triton 3.7 does. Compiled kernels never
    come there."""
    import triton
    from triton.runtime import interpreter

    if not triton.__version__.startswith("3.6."):
        return
    patch_tensor = interpreter._patch_lang_tensor

    def patched(tensor: Any, scope: Any) -> None:
        patch_tensor(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

    monkeypatch.setattr(interpreter, "_patch_lang_tensor", patched)
