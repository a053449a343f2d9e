"""The poison of `conftest.py` reaches all memory that the kernels' tensors are made of."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

MAKERS: dict[str, Callable[[Tensor], Tensor]] = {
    "empty": lambda like: torch.empty(3, dtype=like.dtype, device=like.device),
    "new_empty": lambda like: like.new_empty(2, 3),
    "empty_like": torch.empty_like,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("maker", MAKERS)
def test_new_memory_is_poisoned(maker: str, dtype: torch.dtype, device: torch.device) -> None:
    assert MAKERS[maker](torch.zeros(2, dtype=dtype, device=device)).isnan().all()
