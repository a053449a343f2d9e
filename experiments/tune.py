"""`action=tune` times the variants of the kernels' operations at the shape of a run. It writes into
the user's own table which of them later runs of that shape take.

print(tune(Config.of("task=linear", "scale=paper", "precision=bf16")))
"""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import date

import torch

from looplab.conf.files import CACHE
from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config
from looplab.models.kernels.choice import SHIPPED, Row, choose, own_path, read_table
from looplab.show.tables import Table, document
from looplab.training.assemble import build_model, build_task
from looplab.training.device import capability, place, shape_of, what_triton_lacks
from looplab.training.run_folder.files import write_json

_AHEAD = 0.97  # of the usual variant's time: below it another is taken
_TOY_TOKENS = 8  # where kernels are interpreted
_INTERPRETED = "interpreted on a CPU, where times mean nothing"


def tune(config: Config) -> str:
    """Time all variants at the run's shape, and write the row of the user's own table; returns what
    was found as text.

    Raises ConfigError without a GPU, and for a run that kernels do not compute; RunError for a
    damaged table. In Triton's interpreter, where times mean nothing, a prompt of a few tokens is
    computed, and the row is for the interpreter alone.
    """
    placement = place(config.device, config.precision, "eager")
    device = placement.device
    precision = placement.precision
    if problem := what_triton_lacks(device):
        raise ConfigError("action", f"cannot be tune on {device}: it {problem}")
    if precision == "mixed":
        raise ConfigError("precision", "cannot be mixed with action=tune, which times one")
    from looplab.models.kernels.segment import why_not  # Triton is there

    from .kernel_times import compute_of, variant_times

    task = build_task(config)
    shape = shape_of(config)
    compute = compute_of(precision)
    e = torch.empty(1, shape.tokens, shape.n_embd, device=device)
    if problem := why_not(build_model(config, task).loop, e, compute, None):
        raise ConfigError("action", f"cannot be tune: {problem}")
    path = own_path()
    if path is None:
        problem = f"has no place for its table: {CACHE} must name a folder"
        raise ConfigError("action", f"cannot be tune: it {problem}, as this user has no home")
    read_table(path)  # a damaged one is refused before anything is timed
    # What stays where no other is ahead: the shipped choice, or cuBLAS.
    usual = choose(capability(device), precision, shape, read_table(SHIPPED))
    card = torch.cuda.get_device_name(device) if e.is_cuda else _INTERPRETED
    timed = shape if e.is_cuda else shape._replace(prompts=1, tokens=_TOY_TOKENS)
    times = variant_times(timed, device, compute)
    taken = {field: fastest(times[field], name) for field, name in asdict(usual.variants).items()}
    place_in_table: Row = {
        "capability": capability(device),
        "precision": precision,
        "n_embd": shape.n_embd,
        "hidden": shape.hidden,
        "rows": shape.rows,
    }
    row = place_in_table | {"variants": taken, "backend": usual.backend, "card": card}
    row |= {"date": str(date.today()), "milliseconds": times}
    # Read only now: another shell may have written a row meanwhile.
    others = read_table(path)
    rows = [row, *(other for other in others if not other.items() >= place_in_table.items())]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {"rows": rows})
    kept = f"kept in {path}"
    title = f"\n{card}, {precision}, {shape.rows:,} rows"
    return document([title, Table(["operation", "taken"], list(taken.items())), kept])


def fastest(times: Mapping[str, float], usual: str) -> str:
    """The fastest of the variants that were timed, where it is ahead of the usual one by enough."""
    return min(
        times, key=lambda name: times[name] * (_AHEAD if name == usual else 1), default=usual
    )
