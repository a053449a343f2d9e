"""Numbers that grow with the step, as pure functions of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Schedule:
    """A whole number that starts at `start` and grows by `inc` until it is clamped at `end`.

    `intervals` says for how many steps each value is held; the last of them repeats. The first
    value is held for steps 0 .. intervals[0] - 1. Raises ValueError for a schedule that cannot
    move from start to end.
    """

    start: int
    end: int
    inc: int
    intervals: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.start > self.end:
            raise ValueError(f"a schedule cannot start at {self.start}, beyond its end {self.end}")
        if self.inc < 1 or not self.intervals or min(self.intervals) < 1:
            raise ValueError("a schedule needs inc >= 1 and intervals of at least one step")

    def __call__(self, step: int) -> int:
        grown = 0
        for interval in self.intervals[:-1]:
            if step < interval:
                break
            grown, step = grown + 1, step - interval
        else:
            grown += step // self.intervals[-1]
        return min(self.end, self.start + grown * self.inc)

    @classmethod
    def constant(cls, value: int) -> Schedule:
        """A schedule that stands at `value`."""
        return cls(value, value, 1, (1,))
