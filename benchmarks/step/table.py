"""The printed table: a head, and a line for each variant."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from reloop.conf.schema import Config

from ..common import Ratio
from ..cost import work_of
from .contender import PARTS, Contender


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
