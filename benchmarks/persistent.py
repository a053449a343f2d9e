"""What a persistent loop would take on an H100: a model of one loop without gradients, by part.

    python -m benchmarks.persistent                  41 points
    python -m benchmarks.persistent points=101

Arithmetic alone, on any machine: no kernel is run, as none is written. docs/gpu.md has the design
and reads the tables; models/kernels/persistent/plan.py counts what a CTA (thread block) holds.
"""

from __future__ import annotations

if __name__ == "__main__":  # before the imports, which take a while
    from reloop.conf.entry import begin

    begin()

import sys
from typing import NamedTuple

import torch

from reloop.benchmarks.common import run_benchmark, write_report
from reloop.benchmarks.cost import H100, Work
from reloop.benchmarks.settings import PersistentSettings
from reloop.conf.mistakes import ConfigError
from reloop.models.kernels.persistent.plan import (
    REGISTER_LIMIT,
    SHARED_LIMIT,
    STEP,
    TILE,
    Plan,
    Product,
)

# Constants of the model. Clock and multiprocessors: vendor's sheet, H100 SXM.
_CLOCK, _MULTIPROCESSORS = 1.755e9, 132
_TENSOR = (
    H100.rates["bf16"] / _CLOCK / _MULTIPROCESSORS
)  # FLOP a clock of one, at the measured rate
_WARP_SHARE = 0.62  # of that for mma.sync: published microbenchmarks of Hopper
_SHARED = 128  # bytes a clock from or to shared memory: 32 banks of 4 bytes (CUDA guide)
_SENT = 14  # bytes a clock into another CTA's shared memory: published, 12 to 16
_L2 = 5.5e12  # bytes a second from the L2 cache, all multiprocessors: published
_BARRIER = 400  # clocks of a wait for other CTAs: published latency of 200 to 250, and skew
_FLOAT, _SPECIAL = 128, 16  # fp32 and special-function results a clock (CUDA guide)
# Instructions for each element, counted by hand, and clocks of a norm's exchange between warps.
_NORM_OPS, _GELU_OPS, _SOFTMAX_OPS, _NORM_EXCHANGE = 8, 12, 6, 300


class Division(NamedTuple):
    """A way to divide prompts over CTAs, and the size of a cluster: CTAs that share weight tiles
    by multicast or each other's shared memory."""

    name: str
    features: int
    tokens: int
    prompts: int
    cluster: int

    def plan(self, settings: PersistentSettings) -> Plan:
        """Its plan for a shape."""
        length = 2 * settings.points - 1
        shape = (length, settings.width, settings.heads)
        return Plan(*shape, self.features, self.tokens, self.prompts)


DIVISIONS = (
    Division("tokens over 2", 1, 2, 1, 2),  # the design
    Division("tokens over 2", 1, 2, 1, 4),
    Division("features over 2", 2, 1, 1, 2),
    Division("features over 2", 2, 1, 1, 4),
    Division("features over 4", 4, 1, 2, 4),
    Division("one CTA a prompt", 1, 1, 1, 2),
)


class Parts(NamedTuple):
    """Modelled microseconds of a loop, one after another, and the GELU's, which lie under the
    products of the other warpgroup."""

    products: float
    attention: float
    norms: float
    sent: float
    barriers: float
    e: float
    gelu: float

    @property
    def total(self) -> float:
        """All but the GELU."""
        return sum(self) - self.gelu


def main(words: list[str]) -> int:
    """Run the command; returns the exit code."""
    return run_benchmark("persistent", PersistentSettings, words, __doc__, _run)


def _run(settings: PersistentSettings) -> None:
    """Print the tables and write them; ConfigError for a shape that the design does not take."""
    plan = DIVISIONS[0].plan(settings)
    if reason := plan.why_not():
        raise ConfigError("points, width, heads", f"have no persistent loop: {reason}")
    print(
        f"{settings.prompts} prompts of {settings.points} points ({plan.length} tokens), "
        f"{plan.width} wide, {plan.heads} heads; {plan.tokens} CTAs a prompt, N = {plan.columns}"
    )
    _print_counts("shared memory of a CTA, bytes", plan.shared_memory(), SHARED_LIMIT)
    _print_counts("registers of a thread", plan.registers(), REGISTER_LIMIT)
    _print_products(plan)
    _print_rows(plan)
    rows = _print_divisions(settings)
    write_report(settings.json, torch.device("cpu"), {"divisions": rows})


def microseconds(clocks: float) -> float:
    """The time of so many clocks."""
    return 1e6 * clocks / _CLOCK


def product_clocks(product: Product, columns: int) -> tuple[float, float]:
    """Clocks of a product in the tensor cores, and of shared memory for it: each instruction reads
    a tile of weights and one of activations, and the weights are written there before."""
    tensor = product.instructions * 2 * TILE * STEP * columns / _TENSOR
    moved = product.instructions * 2 * STEP * (2 * TILE + columns) / _SHARED
    return tensor, moved


def parts_of(division: Division, settings: PersistentSettings) -> Parts:
    """The modelled loop of one layer by part."""
    plan = division.plan(settings)
    ctas = settings.prompts * plan.ctas / plan.prompts
    waves = -(-ctas // (_MULTIPROCESSORS // division.cluster * division.cluster))
    at_once = ctas / waves
    weights = 2 * sum(product.rows * product.inner for product in plan.products())
    read = 1e6 * weights * at_once * plan.features / division.cluster / _L2
    products = sum(max(product_clocks(product, plan.columns)) for product in plan.products())
    element = plan.own_features * plan.columns / _FLOAT
    pairs, size = plan.attended(), plan.width // plan.heads
    attention = 4 * size * pairs / (_WARP_SHARE * _TENSOR)
    attention += pairs * max(_SOFTMAX_OPS / _FLOAT, 1 / _SPECIAL)
    return Parts(
        waves * max(microseconds(products), read),
        waves * microseconds(attention),
        waves * microseconds(3 * (_NORM_OPS * element + _NORM_EXCHANGE)),
        waves * microseconds(sum(plan.sent().values()) / _SENT),
        waves * microseconds(plan.barriers() * _BARRIER),
        waves * 1e6 * 4 * plan.own_features * plan.columns * at_once / _L2,
        waves * microseconds(4 * _GELU_OPS * element),
    )


def floor(settings: PersistentSettings) -> float:
    """Microseconds of a loop's arithmetic alone on the whole card, without padding."""
    length = 2 * settings.points - 1
    work = Work(settings.width, settings.prompts * length, length, 1, 0, 0)
    return 1e6 * work.flops / H100.rates["bf16"]


def _print_counts(title: str, counts: dict[str, int], limit: int) -> None:
    print(f"\n{title}")
    for name, count in counts.items():
        print(f"  {name:52}{count:9,}")
    print(f"  {f'sum, of {limit:,}':52}{sum(counts.values()):9,}")


def _print_products(plan: Plan) -> None:
    names = f"{'M':>6}{'N':>6}{'K':>6}{'wgmma':>8}{'tensor µs':>11}{'memory µs':>11}"
    print(f"\n{'products of a CTA':20}{names}")
    for product in plan.products():
        tensor, moved = map(microseconds, product_clocks(product, plan.columns))
        print(
            f"  {product.name:18}{product.rows:6}{plan.columns:6}{product.inner:6}"
            f"{product.instructions:8}{tensor:11.2f}{moved:11.2f}"
        )


def _print_rows(plan: Plan) -> None:
    """The same products with tokens as rows: weights are N and are read once for 64 tokens."""
    tiles = -(-plan.columns // TILE)
    weights = sum(product.rows * product.inner for product in plan.products())
    tensor = microseconds(2 * tiles * TILE * weights / _TENSOR)
    moved = microseconds(2 * (1 + tiles) * weights / _SHARED)
    print(f"  {f'all, tokens as M = {tiles * TILE}':44}{tensor:11.2f}{moved:11.2f}")


def _print_divisions(settings: PersistentSettings) -> list[dict[str, object]]:
    print(f"\na loop, modelled µs (the arithmetic alone: {floor(settings):.1f})")
    names = ("product", "attend", "norms", "sent", "wait", "e", "sum")
    print(f"  {'division':18}{'cluster':>8}{'N':>5}" + "".join(f"{n:>8}" for n in names) + "  GELU")
    rows: list[dict[str, object]] = []
    for division in DIVISIONS:
        plan, parts = division.plan(settings), parts_of(division, settings)
        times = "".join(f"{time:8.1f}" for time in (*parts[:-1], parts.total))
        reason = plan.why_not()
        print(
            f"  {division.name:18}{division.cluster:8}{plan.columns:5}{times}{parts.gelu:6.1f}"
            + (f"  no: {reason}" if reason else "")
        )
        rows.append(
            {**division._asdict(), **parts._asdict(), "sum": parts.total, "why_not": reason}
        )
    return rows


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
