"""Memory that ran out: told in a line, with what helps.

with told_when_full(config, folder.path):
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
def told_when_full(config: Config, path: Path) -> Iterator[None]:
    """Raises RunError in place of what says, in many ways, that memory ran out within: the run at
    `path` is as it was when it was last saved, and can be made with more shards. RunErrors pass."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RunError) or not out_of_memory(error):
            raise
        raise RunError(
            f"{path}: out of memory in a step; {_help(config)}; the last checkpoint is intact"
        ) from None


def _help(config: Config) -> str:
    """What to ask for instead."""
    training = config.training
    batch, shards = training.batch_size, training.shards
    more = next((n for n in range(2 * shards, batch + 1) if batch % n == 0), batch)
    if more == shards:
        return "a smaller model, or a smaller training.batch_size, needs less"
    return (
        f"training.shards={more} computes its {batch} prompts in {more} parts, and a smaller "
        "training.batch_size or loops.T needs less too"
    )
