"""A batch of in-context prompts: `Prompts(xs, ys)`."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Prompts:
    """Inputs `xs` of shape [B, n, d] and their outputs `ys` of shape [B, n]; or tokens of a text,
    both [B, n], the outputs being the tokens after the inputs.

    A prompt of n pairs poses n questions at once: y_i is to be predicted from x_i and the i pairs
    before it. Raises ValueError where the shapes do not fit together.
    """

    xs: Tensor
    ys: Tensor

    def __post_init__(self) -> None:
        is_text = self.xs.ndim == 2 and self.xs.dtype == torch.int64
        if not (is_text or self.xs.ndim == 3) or self.ys.shape != self.xs.shape[:2]:
            raise ValueError(
                "prompts need xs [B, n, d] and ys [B, n], or int64 tokens as both, "
                f"got xs {list(self.xs.shape)} and ys {list(self.ys.shape)}"
            )

    def __len__(self) -> int:
        return len(self.xs)

    def __getitem__(self, index: slice) -> Prompts:
        return Prompts(self.xs[index], self.ys[index])

    def to(self, device: object) -> Prompts:
        """The same prompts on another device."""
        return Prompts(self.xs.to(device), self.ys.to(device))  # type: ignore[call-overload]
