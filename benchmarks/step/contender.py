"""A variant with its measurements, and what follows from them."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

import torch

from looplab.conf.schema import Config

from ..common import Ratio, paired_ratio
from ..cost import work_of
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


def head(device: torch.device, kinds: Sequence[str]) -> str:
    """The names of the columns; one for each kind of variant that ours are compared with."""
    ratios = "".join(f"{'x ' + kind:>26}" for kind in kinds)
    if device.type == "cpu":
        seconds = "".join(f"{key + ' s':>9}" for key in (*PARTS, "floor"))
        return f"{'':32}{seconds}{'of floor':>9}{'steps/s':>9}{ratios}"
    facts = f"{'kernels':>9}{'peak MiB':>9}{'of floor':>9}{'500k, h':>9}"
    return f"{'':32}{'wall ms':>9}{'steps/s':>9}{ratios}{facts}"


def line(contender: Contender, ratios: Sequence[Ratio | None]) -> str:
    """A variant's medians, and its ratios in the order of the head."""
    wall = contender.median("wall")
    name, rate = f"{contender.variant.name:32}", f"{1 / wall:9.3g}"
    cells = "".join(f"{ratio or '-':>26}" for ratio in ratios)
    floor = f"{contender.of_floor():.1%}" if contender.floor else "-"
    if contender.peak is None:
        seconds = "".join(f"{contender.median(key):9.3g}" for key in PARTS)
        least = f"{contender.floor.seconds:.3g}" if contender.floor else "-"
        return f"{name}{seconds}{least:>9}{floor:>9}{rate}{cells}"
    kernels = contender.launches.kernels if contender.launches else "-"
    facts = f"{kernels:>9}{contender.peak / 2**20:9.0f}{floor:>9}{contender.hours():9.2f}"
    return f"{name}{1e3 * wall:9.3g}{rate}{cells}{facts}"


def describe(config: Config) -> str:
    """The sizes of a configuration and its work, in a line."""
    task, model, loops = config.task, config.model, config.loops
    depth = f"{model.n_layer} layers"
    if model.family == "looped":
        depth = f"b = {loops.b}, T = {loops.T}"
    sizes = f"n = {task.points}, d = {task.dims}, B = {config.training.batch_size}"
    work = work_of(config)
    return f"{depth}, {sizes}, D = {model.n_embd}; {work.flops / 1e9:.4g} GFLOP a step (computed)"
