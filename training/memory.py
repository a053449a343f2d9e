"""Memory that ran out: reported in a line, with advice.

with report_out_of_memory(config, folder.path):
    trainer.update(step)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reloop.conf.checks.machine import out_of_memory
from reloop.conf.mistakes import RunError
from reloop.conf.schema import Config


@contextmanager
def report_out_of_memory(config: Config, path: Path, runs: int = 1) -> Iterator[None]:
    """Raises RunError in place of the various errors that say that memory ran out within: the run
    at `path`, the first of `runs` trained together, is as last saved, and can go on with more
    shards or alone. RunErrors pass."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RunError) or not out_of_memory(error):
            raise
        of = f" of {runs} runs; together=false trains one at a time" if runs > 1 else ""
        raise RunError(
            f"{path}: out of memory in a step{of}; {_help(config)}; the last checkpoint is intact"
        ) from None


def _help(config: Config) -> str:
    """The settings that need less memory."""
    training = config.training
    batch, shards = training.batch_size, training.shards
    count = next((n for n in range(2 * shards, batch + 1) if batch % n == 0), batch)
    if count == shards:
        return "a smaller model, or a smaller training.batch_size, needs less"
    return (
        f"training.shards={count} computes its {batch} prompts in {count} parts, and a smaller "
        "training.batch_size or loops.T needs less too"
    )
