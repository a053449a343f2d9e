"""The processes of one training, as `torchrun` starts them: which one this is, and what they cannot
be used for. No torch here.

if (launch := launched()) is not None:      # torchrun --nproc-per-node=2 run.py task=linear
    check_launch(config, launch)
"""

import os
from dataclasses import dataclass

from ..mistakes import ConfigError
from ..schema import Config

_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True)
class Launch:
    """This process among the `size` of a training: its `rank`, and its `local_rank` among those of
    the same machine."""

    rank: int
    size: int
    local_rank: int


def launched() -> Launch | None:
    """Return how torchrun started this process; None where it did not, or as the only one."""
    values = [os.environ.get(variable, "") for variable in _VARIABLES]
    # A scheduler may set some of these; torchrun sets all.
    if not all(values) or not all(map(str.isdecimal, values[:3])):
        return None
    rank, size, local_rank = map(int, values[:3])
    return Launch(rank, size, local_rank) if size > 1 else None


def is_follower() -> bool:
    """Says whether this is one of several processes, but not the one that prints and writes (rank
    0)."""
    launch = launched()
    return launch is not None and launch.rank > 0


def check_launch(config: Config, launch: Launch) -> None:
    """Raises ConfigError where these processes cannot share the training of a configuration."""
    training = config.training
    size = launch.size
    if training.shards % size:
        problem = f"must be a multiple of the {size} processes, got {training.shards}"
        raise ConfigError("training.shards", problem)
    if config.device not in ("auto", "cuda", "cpu"):
        problem = f"must be auto, cuda or cpu under torchrun, got {config.device}"
        raise ConfigError("device", problem)


def refuse_torchrun(what: str) -> None:
    """Raises ConfigError under torchrun, which is of no use for `what`."""
    if launched() is not None:
        raise ConfigError("torchrun", f"is for one training: start {what} without it")
