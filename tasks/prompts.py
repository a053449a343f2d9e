"""A batch of in-context prompts: `Prompts(xs, ys)`."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Prompts:
    """Inputs `xs` of shape [B, n, d] and their outputs `ys` of shape [B, n].

    A prompt of n pairs poses n questions at once: y_i is to be predicted from x_i and the i pairs
    before it. Raises ValueError where the shapes do not fit together.
    """

    xs: Tensor
    ys: Tensor

    def __post_init__(self) -> None:
        if self.xs.ndim != 3 or self.ys.shape != self.xs.shape[:2]:
            raise ValueError(
                "prompts need xs [B, n, d] and ys [B, n], "
                f"got xs {list(self.xs.shape)} and ys {list(self.ys.shape)}"
            )

    def __len__(self) -> int:
        return len(self.xs)

    def __getitem__(self, index: slice) -> Prompts:
        return Prompts(self.xs[index], self.ys[index])

    def to(self, device: object) -> Prompts:
        """The same prompts on another device."""
        return Prompts(self.xs.to(device), self.ys.to(device))  # type: ignore[call-overload]
