"""`action=tune` times the variants of the kernels' operations at the shape of a run. It writes into
the user's own table which of them later runs of that shape take.

print(tune(Config.of("task=linear", "scale=paper", "precision=bf16")))
"""

import math
import os
from dataclasses import asdict
from datetime import UTC, datetime

import torch

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config
from looplab.models.kernels.choice import (
    INTERPRETER,
    PRECISIONS,
    SHIPPED,
    Row,
    choose,
    own_path,
    read_table,
    rounded_rows,
)
from looplab.models.kernels.variants import VARIANTS
from looplab.show.tables import Part, Table, document
from looplab.training.assemble import build_model, build_task
from looplab.training.device import capability, place, shape_of, what_triton_lacks
from looplab.training.run_folder.files import write_json

_AHEAD = 0.97  # of the time of the variant in whose place another is taken, at most
_TOY_TOKENS = 8  # where kernels are interpreted


def tune(config: Config) -> str:
    """Time all variants at the run's shape, and write the row of the user's own table; returns what
    was found as text.

    Raises ConfigError without a GPU, and for a run that kernels do not compute; RunError for a
    damaged table. In Triton's interpreter times mean nothing: a prompt of a few tokens is computed,
    and nothing is written where XDG_CACHE_HOME names no folder.
    """
    placement = place(config.device, config.precision, "eager")
    device = placement.device
    precision = placement.precision
    if problem := what_triton_lacks(device):
        raise ConfigError("action", f"cannot be tune on {device}: it {problem}")
    from looplab.models.kernels.segment import why_not  # Triton is there

    from .kernel_times import Sizes, compute_of, variant_times

    task = build_task(config)
    if precision not in PRECISIONS:
        raise ConfigError("precision", f"cannot be {precision} with action=tune: no table has it")
    shape = shape_of(config, task)
    prompts = config.training.batch_size // config.training.shards
    tokens = shape.rows // prompts
    card = torch.cuda.get_device_name(device) if device.type == "cuda" else INTERPRETER
    sizes = Sizes(shape.n_embd, config.model.n_head, prompts, tokens)
    if card == INTERPRETER:
        sizes = sizes._replace(prompts=1, tokens=min(tokens, _TOY_TOKENS))
    e = torch.empty(1, tokens, shape.n_embd, device=device)
    if problem := why_not(build_model(config, task).loop, e, compute_of(precision), None):
        raise ConfigError("action", f"cannot be tune: {problem}")
    others = read_table(own_path())
    # What is kept where no other is ahead: the shipped choice, or cuBLAS.
    usual = choose(capability(device), precision, shape, read_table(SHIPPED))
    times = variant_times(sizes, str(device), precision)
    taken = {field: _fastest(times[field], name) for field, name in asdict(usual.variants).items()}
    row = Row(
        capability=capability(device),
        precision=precision,
        n_embd=shape.n_embd,
        hidden=shape.hidden,
        rows=rounded_rows(shape.rows),
        variants=taken,
        backend=usual.backend,
        card=card,
        date=datetime.now(UTC).date().isoformat(),
        milliseconds=times,
    )
    title = f"{card}, {precision}, {shape.rows:,} rows of {shape.n_embd}; microseconds:"
    parts: list[Part] = [title, _table(row), _written(row, others)]
    return document(parts, config.tables.format)


def _fastest(times: dict[str, float | None], usual: str) -> str:
    """The fastest variant, where it is ahead of the usual one by enough; times are milliseconds,
    None for one that failed."""
    known = {name: time for name, time in times.items() if time is not None}
    if not known:
        return usual
    best = min(known, key=known.__getitem__)
    return best if known[best] <= _AHEAD * known.get(usual, math.inf) else usual


def _table(row: Row) -> Table:
    """The microseconds of each variant, and which is taken."""
    names = VARIANTS["mlp_forward"]  # which has all of them
    lines = []
    for field, times in row.milliseconds.items():
        cells = [field]
        for name in names:
            time = times.get(name)
            cells.append("" if time is None else f"{1e3 * time:.3g}")
        lines.append([*cells, row.variants[field]])
    return Table(["operation", *names, "taken"], lines)


def _written(row: Row, others: list[Row]) -> str:
    """Write the row into the user's own table, in the place of the one it had; where, in words."""
    path = own_path()
    said = "interpreted on a CPU: these times mean nothing; " if row.card == INTERPRETER else ""
    if said and not os.environ.get("XDG_CACHE_HOME"):
        return f"{said}not written, since XDG_CACHE_HOME names no folder"
    rows = [row, *(other for other in others if other.place != row.place)]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {"rows": [asdict(each) for each in rows]})
    return f"{said}written to {path}"
