"""Random numbers for a batch of prompts: fresh ones, or those of numbered prompts.

A task samples through this interface alone, so that `distinct_prompts` works for every task.
"""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Generator, Tensor


class RandomSource(Protocol):
    """Independent random numbers for each prompt of a batch."""

    def normal(self, *shape: int) -> Tensor:
        """Standard normal numbers, float32 [B, *shape]."""

    def uniform(self, *shape: int) -> Tensor:
        """Uniform numbers in [0, 1), float32 [B, *shape]."""


class FreshNumbers:
    """New numbers from `generator`, on its device, at every call."""

    def __init__(self, generator: Generator, batch: int) -> None:
        self.generator = generator
        self.batch = batch

    def normal(self, *shape: int) -> Tensor:
        return self._draw(torch.randn, shape)

    def uniform(self, *shape: int) -> Tensor:
        return self._draw(torch.rand, shape)

    def _draw(self, sample: Callable[..., Tensor], shape: tuple[int, ...]) -> Tensor:
        device = self.generator.device
        size = (self.batch, *shape)
        return sample(size, generator=self.generator, device=device, dtype=torch.float32)


class NumberedPrompts:
    """The numbers of prompts `index` (int64 [B]) of one fixed family of prompts.

    Number i of the c-th call for prompt j is a hash of (family, j, c, i): the SplitMix64 stream
    (Steele, Lea and Flood 2014) at a random-looking offset for each (j, c). There is no
    storage and no loop, and a shorter draw is the beginning of a longer one.
    """

    _GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15, the stream's increment

    def __init__(self, index: Tensor, family: int) -> None:
        # SplitMix64 mixes a counter times this odd number: here the counter is the prompt's number.
        self.key = _mix(_mix(torch.full_like(index, family)) + index * self._GOLDEN)
        self.calls = 0

    def uniform(self, *shape: int) -> Tensor:
        # The upper 24 bits, as float32 keeps; the mask drops the sign that the shift repeats.
        return (self._bits(shape) >> 40 & 0xFFFFFF).float() * 2.0**-24

    def normal(self, *shape: int) -> Tensor:
        # 52 random bits at the centres of their cells, so that neither tail is infinite.
        centred = ((self._bits(shape) >> 12 & (1 << 52) - 1).double() + 0.5) * 2.0**-52
        return torch.special.ndtri(centred).float()

    def _bits(self, shape: tuple[int, ...]) -> Tensor:
        self.calls += 1
        call = torch.full_like(self.key, self.calls)
        key = _mix(self.key + call * self._GOLDEN)
        count = torch.Size(shape).numel()
        counter = torch.arange(1, count + 1, device=key.device)
        return _mix(key[:, None] + counter * self._GOLDEN).view(len(key), *shape)


def _mix(bits: Tensor) -> Tensor:
    """SplitMix64's finaliser on int64, whose products wrap as the unsigned ones do."""
    bits = (bits ^ _shift_right(bits, 30)) * -4658895280553007687  # 0xBF58476D1CE4E5B9
    bits = (bits ^ _shift_right(bits, 27)) * -7723592293110705685  # 0x94D049BB133111EB
    return bits ^ _shift_right(bits, 31)


def _shift_right(bits: Tensor, places: int) -> Tensor:
    """Logical shift: int64's own shift repeats the sign."""
    return bits >> places & (1 << 64 - places) - 1
