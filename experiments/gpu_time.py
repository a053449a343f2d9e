"""The time of a training on a GPU: by the steps that were timed on one (benchmarks/results/gpu)
for models of their shape, else by floating-point operations alone.

time = gpu_time(config, shapes_of(config))
time.seconds, time.is_timed
"""

import json
from collections.abc import Mapping
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np

from looplab.conf.schema import Config, ModelConfig
from looplab.curricula import Stage
from looplab.models import Model
from looplab.training.assemble import build_curriculum, build_task, last_stage
from looplab.training.progress import Work

from .flops import Flops

CARD = "NVIDIA H200"  # on which the steps were timed
RESULTS = Path(__file__).resolve().parents[1] / "benchmarks/results/gpu"
# FLOPs a second of large models on an NVIDIA H100 or H200: two fifths of the dense peaks.
RATES = {"bf16": 4e14, "mixed": 4e14, "tf32": 2e14, "fp32": 2.7e13}
_KERNEL = 4e-6  # seconds of a kernel on a matrix of a block, in a captured step
_KERNELS = 36  # of Muon for each matrix: 5 polynomials of 3 products and 2 copies, the rest
_FACTOR = 2  # by which a width may be apart from what was timed
# Settings of models whose steps are those of the timed ones, layer by layer.
_PLAIN = (
    "block",
    "attention",
    "connectivity",
    "norm",
    "prelude",
    "coda",
    "lanes",
    "block_norm",
    "n_hidden",
)


class Step(NamedTuple):
    """What the time of a step depends on: `passes` of its `rows` of `width` numbers through a
    layer, where a backward pass counts as two; its FLOPs; and its `code`: backend, precision and
    whether it is captured as a graph."""

    passes: float
    rows: float
    width: int
    flops: float
    code: tuple[str, str, bool]

    @property
    def products(self) -> float:
        """Seconds of its products at a large model's rate; uncaptured, they hide behind the host's
        launches."""
        _, precision, is_captured = self.code
        return self.flops / RATES[precision] if is_captured else 0.0

    def terms(self) -> dict[str, float]:
        """The other parts of its time, whose seconds are to be found: how often each counts.

        A pass takes a fixed time, and some for each number, which goes through memory. Eager steps
        are compiled ones of which more numbers do, the same in each precision. Uncaptured, the host
        takes a fixed time for the launches of a pass, longer than these kernels run.
        """
        backend, precision, is_captured = self.code
        if not is_captured:
            return {f"launches {backend}": self.passes}
        compiled = "compile" if backend == "eager" else backend
        numbers = self.passes * self.rows * self.width
        terms = {f"pass {compiled} {precision}": self.passes}
        terms[f"numbers {compiled} {precision}"] = numbers
        if backend == "eager":
            terms["numbers unfused"] = numbers
        return terms


class StepTimes:
    """Seconds of steps by the timed seconds of others: least squares of the relative errors."""

    def __init__(self, timed: Mapping[Step, float]) -> None:
        self._widths = [step.width for step in timed]
        names = list(dict.fromkeys(name for step in timed for name in step.terms()))
        counts = np.zeros((len(timed), len(names)))
        for row, step in zip(counts, timed, strict=True):
            for name, count in step.terms().items():
                row[names.index(name)] = count
        seconds = np.array(list(timed.values()))
        unknown = seconds - [step.products for step in timed]
        # Rows are over their seconds, for relative errors; columns are scaled, as numbers are
        # billions and passes tens.
        scale = counts.max(0)
        weighted = counts / scale / seconds[:, None]
        solution, *_ = np.linalg.lstsq(weighted, unknown / seconds, rcond=None)
        self._coefficients = dict(zip(names, solution / scale, strict=True))

    def __call__(self, step: Step) -> float:
        terms = step.terms().items()
        return step.products + sum(self._coefficients[name] * count for name, count in terms)

    def know(self, step: Step) -> bool:
        """Says whether steps of its code and of about its width were timed."""
        least = min(self._widths) / _FACTOR
        most = max(self._widths) * _FACTOR
        return step.terms().keys() <= self._coefficients.keys() and least <= step.width <= most


@cache
def timed_steps() -> dict[Step, float]:
    """The steps of ours that were timed on the card, and their seconds: of two timings of one kind
    the later."""
    files = [json.loads(path.read_text()) for path in RESULTS.glob("step_*.json")]
    results = []
    for file in sorted(files, key=itemgetter("date")):
        if file["device"] == CARD:
            results += file["settings"].values()
    steps = {}
    for result in results:
        for row in result["variants"]:
            if row["side"] == "ours":
                code = (row["backend"], row["precision"], row["capture"])
                step = Step(**result["shape"], flops=result["flops"], code=code)
                steps[step] = row["median_s"]["wall"]
    return steps


class GpuTime(NamedTuple):
    """The FLOPs of a training and its seconds on one GPU; whether they are those of timed steps
    or, else, of the FLOPs alone, which are fewer; and the precision."""

    flops: float
    seconds: float
    is_timed: bool
    precision: str


def gpu_time(config: Config, model: Model) -> GpuTime:
    """The time of a whole training on a GPU, in the precision and by the backend that it has there
    (auto: tf32 and triton)."""
    task = build_task(config)
    curriculum = build_curriculum(config, task)
    steps = config.training.steps
    flops = Flops(config, model, curriculum)
    total = flops(steps)
    precision = "tf32" if config.precision == "auto" else config.precision
    backend = "triton" if config.backend == "auto" else config.backend
    is_captured = config.loops.sampling == "none"
    code = (backend, precision, is_captured)

    def step_of(stage: Stage) -> Step:
        return Step(**sizes_of(config, stage), flops=flops.of_stage(stage), code=code)

    times = StepTimes(timed_steps())
    if not (_is_plain(config) and times.know(step_of(last_stage(config, task)))):
        return GpuTime(total, total / RATES[precision], False, precision)
    muon = flops.muon_matrices * _KERNELS * _KERNEL
    work = Work(curriculum, steps, lambda stage: times(step_of(stage)) + muon)
    return GpuTime(total, work.total, True, precision)


def sizes_of(config: Config, stage: Stage) -> dict[str, int]:
    """The passes, rows and width of a step on pairs, as `Step` has them."""
    training = config.training
    model = config.model
    layers = 1 if model.family == "standard" else model.n_layer
    return {
        "passes": training.shards * layers * (stage.loops + 2 * stage.grad_loops),
        "rows": training.batch_size // training.shards * config.task.tokens_of(stage.points),
        "width": model.n_embd,
    }


def _is_plain(config: Config) -> bool:
    """Says whether a training's steps are those of the timed ones but for sizes."""
    training = config.training
    model = config.model
    if config.task.is_text or model.injection not in ("add", "multiply", "none"):
        return False
    if training.recompute or training.jacobian_penalty or config.loops.stop_at:
        return False
    is_plain = all(getattr(model, name) == getattr(ModelConfig, name) for name in _PLAIN)
    return is_plain and config.loops.halt is None
