"""Numbers that grow with the step, as pure functions of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Schedule:
    """An integer that starts at `start` and grows by `inc` up to `end`.

    `intervals` are the numbers of steps that each value lasts; the last of them repeats. The first
    value lasts for steps 0 .. intervals[0] - 1. Raises ValueError for a schedule that cannot go
    from start to end.
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
        increments = 0
        for interval in self.intervals[:-1]:
            if step < interval:
                break
            increments, step = increments + 1, step - interval
        else:
            increments += step // self.intervals[-1]
        return min(self.end, self.start + increments * self.inc)

    @classmethod
    def constant(cls, value: int) -> Schedule:
        """A schedule that stays at `value`."""
        return cls(value, value, 1, (1,))
