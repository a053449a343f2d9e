"""Combinations of loop settings that cannot run: key and problem, for config.py to refuse."""

from collections.abc import Iterator

from ..schema import Config, LoopsConfig

_CUT = 4  # times b: the most loops of a Poisson-lognormal draw, which bounds memory


def most_loops(sampling: str, b: int, least: int = 1) -> int:
    """The most loops that a step can make around `b`: 2 b - least (uniform), 4 b
    (poisson_lognormal, but 1 where b is 1) or b (none)."""
    if sampling == "uniform":
        return 2 * b - least
    return _CUT * b if sampling == "poisson_lognormal" and b > 1 else b


def loop_mistakes(config: Config) -> Iterator[tuple[str, str]]:
    """Key and problem of each combination that cannot run; b and T are at least 1."""
    model = config.model
    loops = config.loops
    start = config.curriculum.loops.start
    reaches_all = model.family != "looped" or _reach_all(loops)
    every = "gradients reach back through every loop of this model"
    if reaches_all and config.precision == "mixed":
        yield "precision", f"cannot be mixed: {every}"
    if reaches_all and loops.stop_at:
        yield "loops.stop_at", f"has no meaning here: {every}"
    if model.family != "looped":
        for name in ("sampling", "grad_loops", "least", "halt"):
            if getattr(loops, name) != getattr(LoopsConfig, name):
                yield f"loops.{name}", f"has no meaning with model={model.family}"
        return
    if loops.sampling != "none" and start not in (None, loops.b):  # at b, nothing grows
        problem = f"must be null with loops.sampling={loops.sampling}, got {start}: loops are drawn"
        yield "curriculum.loops.start", problem
    if loops.least > loops.b:
        yield "loops.least", f"must be at most loops.b={loops.b}, got {loops.least}"
    yield from _short_gradients(loops)
    reads_once = model.connectivity is None and model.injection == "none"
    if (reads_once or model.connectivity == "LT") and not reaches_all:
        problem = "gradients must reach the first loop, which alone reads the prompt"
        yield "loops.grad_loops", f"must be all, got {loops.grad_loops}: {problem}"
    if model.lanes and most_loops(loops.sampling, loops.b, loops.least) > loops.b:
        problem = f"lanes have parameters for loops.b={loops.b} loops, and more would be drawn"
        yield "model.lanes", f"cannot be used with loops.sampling={loops.sampling}: {problem}"


def _short_gradients(loops: LoopsConfig) -> Iterator[tuple[str, str]]:
    """The mistake of a `grad_loops` that is shorter than the window."""
    key = "loops.grad_loops"
    reach = loops.grad_loops
    half = (loops.b + 1) // 2
    if isinstance(reach, int):
        # Of the step with the most loops; with fewer both window and reach end at the first.
        window = min(loops.T, most_loops(loops.sampling, loops.b, loops.least))
        if reach < window:
            yield key, f"must be at least {window}, the loops that count in the loss, got {reach}"
    elif reach == "half" and half < (window := min(loops.T, loops.b)):
        counted = f"but {window} loops count in the loss"
        yield key, f"cannot be half: that is {half} of loops.b={loops.b}, {counted}"


def _reach_all(loops: LoopsConfig) -> bool:
    """Says whether gradients reach back through every loop of every step: of the most loops that
    can be drawn, of the last loops of a schedule."""
    reach = loops.grad_loops
    most = most_loops(loops.sampling, loops.b, loops.least)
    through = {"window": min(loops.T, most), "half": (most + 1) // 2, "all": most}
    return (reach if isinstance(reach, int) else through[reach]) >= most
