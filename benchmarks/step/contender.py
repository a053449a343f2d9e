"""A variant with its measurements, and what follows from them."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

from ..common import Ratio, paired_ratio
from ..timing import Launches, Times
from ..variants import Variant

Basis = Literal["wall", "user", "system", "cpu"]  # which seconds: cpu is user and system
PARTS: tuple[Basis, ...] = ("wall", "user", "system")
_RUN_STEPS = 500_000


class Floor(NamedTuple):
    """The seconds of the arithmetic alone, where their rates are from, and which seconds they
    are."""

    seconds: float
    source: str
    basis: Basis = "wall"


@dataclass
class Contender:
    """A variant: the steps of one measurement, and the measurements, one a turn. On a GPU also the
    peak of memory, the launches if they can be seen, and the floor if the card is known; on a CPU
    the floor if it is ours."""

    variant: Variant
    repeats: int
    peak: int | None = None
    times: list[Times] = field(default_factory=list)
    launches: Launches | None = None
    floor: Floor | None = None

    def seconds(self, basis: Basis) -> list[float]:
        """Each measurement's seconds a step of one run."""
        return [getattr(times, basis) / self.variant.runs for times in self.times]

    def median(self, basis: Basis) -> float:
        """Their median."""
        return statistics.median(self.seconds(basis))

    def of_floor(self) -> float | None:
        """The share of the floor that is reached."""
        return self.floor and self.floor.seconds / self.median(self.floor.basis)

    def hours(self) -> float:
        """Hours of a run at the measured rate."""
        return self.median("wall") * _RUN_STEPS / 3600

    def ratios(self, others: Sequence[Contender], basis: Basis) -> dict[str, Ratio]:
        """The others' seconds over this one's, of those that are not ours, by their kind."""
        return {
            other.variant.kind: paired_ratio(other.seconds(basis), self.seconds(basis))
            for other in others
            if other.variant.side != "ours" and other is not self
        }

    def plain(self, ratios: Mapping[str, Ratio]) -> dict[str, object]:
        """All of it as plain values."""
        wall = self.median("wall")
        values = {
            **self.variant.facts(),
            "steps_a_measurement": self.repeats,
            "seconds": {key: self.seconds(key) for key in PARTS},
            "median_s": {key: self.median(key) for key in get_args(Basis)},
            "steps_per_second": 1 / wall,
            "ratios": {kind: ratio._asdict() for kind, ratio in ratios.items()},
        }
        if self.floor:
            values |= {
                "floor_s": self.floor.seconds,
                "fraction_of_floor": self.of_floor(),
                "rates_from": self.floor.source,
            }
        if self.peak is None:
            return values
        values |= {"peak_bytes": self.peak, **(self.launches._asdict() if self.launches else {})}
        return values | {"hours_of_500k_steps_at_this_rate": self.hours()}
