"""The processes that torchrun starts for one training.

Each computes some of a batch's shards, and all_reduce adds up the gradients of all. The first
process alone reads and writes the run's folder, and prints. The weights are those of one process up
to the order of sums (1e-6).

torchrun --nproc-per-node=2 run.py task=linear training.shards=2
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import safetensors.torch
import torch
import torch.distributed as dist
from torch import Tensor

from looplab.conf.checks.processes import Launch, check_launch, launched
from looplab.conf.mistakes import ConfigError, EndedElsewhere, RunError
from looplab.conf.schema import Config

from .run_folder.checkpoint import Checkpoint
from .signals import Diverged, Interrupted

_STEP = "step"  # among the names of the tensors of a state


class Processes:
    """This process among those of a training, and what they tell each other. All call each method
    at the same point of the training."""

    def __init__(self, launch: Launch, on_gpus: bool) -> None:
        self.rank = launch.rank
        self.size = launch.size
        self._of_gradients = dist.new_group(backend="nccl") if on_gpus else None  # None: by gloo

    def own(self, shards: int) -> range:
        """The shards that this process computes, S/N of all."""
        count = shards // self.size
        return range(self.rank * count, (self.rank + 1) * count)

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor by its sum over all processes."""
        _as_one(tensors, partial(dist.all_reduce, group=self._of_gradients))

    def shares(self, weights: Sequence[Tensor]) -> list[list[Tensor]]:
        """The weights in a share for each process, of nearly as many numbers each; the same in
        all."""
        shares: list[list[Tensor]] = [[] for _ in range(self.size)]
        sizes = [0] * self.size
        # The greedy rule for equal loads: the largest first, each to whoever has least so far.
        for weight in sorted(weights, key=lambda weight: -weight.numel()):
            least = sizes.index(min(sizes))
            shares[least].append(weight)
            sizes[least] += weight.numel()
        return shares

    @torch.no_grad()
    def exchange(self, shares: Sequence[Sequence[Tensor]]) -> None:
        """Replace the weights of each share by those of its process."""
        for rank, weights in enumerate(shares):
            if weights:
                _as_one(weights, partial(dist.broadcast, src=rank, group=self._of_gradients))

    def agree_on(self, signal: int) -> int:
        """The largest number of a signal that any process has got; 0 where none has."""
        number = torch.tensor(signal)
        dist.all_reduce(number, dist.ReduceOp.MAX)
        return int(number)

    def from_first(self, step: int, state: dict[str, Tensor]) -> Checkpoint:
        """The first process's step and state, in every process; those of the others are ignored."""
        tensors = self._from(0, state | {_STEP: torch.tensor(step)})
        return Checkpoint(int(tensors.pop(_STEP)), tensors)

    def told(self, thing: Any) -> Any:
        """What the first process has in the place of this, in every process."""
        things = [thing]
        dist.broadcast_object_list(things)
        return things[0]

    def from_all(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        """The states of all processes together, on the CPU, in every process."""
        return {
            name: tensor
            for rank in range(self.size)
            for name, tensor in self._from(rank, state).items()
        }

    def _from(self, rank: int, state: dict[str, Tensor]) -> dict[str, Tensor]:
        """The state of the process of this rank, in every process."""
        content = torch.empty(0, dtype=torch.uint8)
        if self.rank == rank:
            tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}
            content = torch.frombuffer(
                bytearray(safetensors.torch.save(tensors)), dtype=torch.uint8
            )
        # How many bytes come, so that the other processes have room for them.
        size = torch.tensor(len(content))
        dist.broadcast(size, rank)
        content = content if len(content) else torch.empty(int(size), dtype=torch.uint8)
        dist.broadcast(content, rank)
        return safetensors.torch.load(content.numpy().tobytes())


def _as_one(tensors: Sequence[Tensor], send: Callable[[Tensor], object]) -> None:
    """Replace tensors by what `send` makes of all their numbers, which it has at once."""
    # One message of all numbers is much faster than one for each tensor.
    flat = torch.cat([tensor.flatten() for tensor in tensors])
    send(flat)
    parts = flat.split([tensor.numel() for tensor in tensors])
    for tensor, part in zip(tensors, parts, strict=True):
        tensor.copy_(part.view_as(tensor))


@contextmanager
def joined(config: Config) -> Iterator[Processes | None]:
    """The processes that train this run, connected within the context; None for a single one.

    Errors raised within it pass in the first process; the others raise EndedElsewhere, and
    therefore need not report them. Raises ConfigError for a run that these processes cannot share,
    RunError in the first process where another has ended.
    """
    if (launch := launched()) is None:
        yield None
        return
    check_launch(config, launch)
    try:
        on_gpus = config.device != "cpu" and torch.cuda.is_available()
        if on_gpus:
            _take_gpu(config.device, launch)
        # For what is on the CPU: states and signals. Gradients on GPUs go by NCCL (`Processes`).
        dist.init_process_group("gloo")
        try:
            yield Processes(launch, on_gpus)
        except (Interrupted, Diverged, EndedElsewhere):
            dist.barrier()  # who leaves first would cut off the others
            raise
        dist.barrier()
    except (Interrupted, EndedElsewhere):
        raise
    except (RuntimeError, ConfigError, OSError) as error:
        if launch.rank:
            raise EndedElsewhere("the first process says why") from None
        if isinstance(error, RunError | ConfigError | OSError):
            raise
        reason = "another process of torchrun ended; the last checkpoint is intact"
        raise RunError(reason) from error
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def _take_gpu(device: str, launch: Launch) -> None:
    """Make this process's GPU the one that `cuda` means. Raises ConfigError where there are fewer
    GPUs than processes."""
    if launch.local_rank >= (gpus := torch.cuda.device_count()):
        raise ConfigError(
            "device",
            f"cannot be {device}: process {launch.local_rank + 1} on this machine has no GPU of "
            f"its own, --nproc-per-node={gpus} would do",
        )
    torch.cuda.set_device(launch.local_rank)
