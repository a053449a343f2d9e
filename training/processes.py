"""One training in the processes that torchrun starts: each computes some of a batch's shards, the
gradients of all are added up by all_reduce, and the first process alone reads and writes the run's
folder, and prints. The weights are those of one process up to the order of sums (1e-6).

torchrun --nproc-per-node=2 run.py task=linear training.shards=2
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import safetensors.torch
import torch
import torch.distributed as dist

from looplab.conf.checks.processes import Launch, check_launch
from looplab.conf.mistakes import ConfigError, EndedElsewhere, RunError
from looplab.conf.schema import Config
from looplab.curricula import Stage

from .member import Member
from .run_folder.checkpoint import Checkpoint
from .signals import Interrupted
from .step import Totals, Trainer

_STEP = "step"  # among the names of the tensors of a state


@contextmanager
def joined(config: Config, launch: Launch, again: bool) -> Iterator[Member]:
    """The run in this process, at its last checkpoint, with the folder held by the first process.

    Raises what `train` does in the first process, EndedElsewhere in the others, which therefore
    need not report it; RunError in the first where another has ended.
    """
    check_launch(config, launch)
    try:
        _take_gpu(config.device, launch)
        dist.init_process_group("gloo")
        member = Follower(config) if launch.rank else Leader(config)
        if member.trainer.device.type == "cuda":
            assert isinstance(member.trainer, ShardedTrainer)
            member.trainer.group = dist.new_group(backend="nccl")
        with ExitStack() as stack:
            if not launch.rank:
                if again:
                    member.set_aside()
                stack.enter_context(member.folder.lock())
                stack.callback(member.close)
                member.restore()
            _share_state(member)
            try:
                yield member
            except Interrupted:
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
    """Make this process's GPU the one that `cuda` means, unless `device` is cpu. Raises ConfigError
    where there are fewer GPUs than processes."""
    if device == "cpu" or not torch.cuda.is_available():
        return
    if launch.local_rank >= (gpus := torch.cuda.device_count()):
        raise ConfigError(
            "device",
            f"cannot be {device}: process {launch.local_rank + 1} on this machine has no GPU of "
            f"its own, --nproc-per-node={gpus} would do",
        )
    torch.cuda.set_device(launch.local_rank)


class ShardedTrainer(Trainer):
    """A Trainer that computes the shards of its process, S/N of the S. All processes make the same
    steps."""

    group: dist.ProcessGroup | None = None  # of the gradients; None: all processes, by gloo

    def _step(self, stage: Stage) -> None:
        count = self.config.training.shards // dist.get_world_size()
        first = dist.get_rank() * count
        values = self._gradients(stage, range(first, first + count))
        gradients = [each.grad for each in self.parameters if each.grad is not None]
        tensors = [*gradients, values]
        flat = torch.cat([tensor.flatten() for tensor in tensors])
        dist.all_reduce(flat, group=self.group)
        parts = flat.split([tensor.numel() for tensor in tensors])
        for tensor, part in zip(tensors, parts, strict=True):
            tensor.copy_(part.view_as(tensor))
        self.apply(values)


class Leader(Member):
    """The run in the first process."""

    make_trainer = ShardedTrainer

    def stop_signal(self, noted: Sequence[int]) -> int:
        number = torch.tensor(noted[0] if noted else 0)
        dist.all_reduce(number, dist.ReduceOp.MAX)
        return int(number)


class Follower(Leader):
    """The run in another process: the same steps, and no files."""

    shown = False

    def __init__(self, config: Config) -> None:
        super().__init__(replace(config, wandb="disabled", tensorboard=False))

    def begin(self) -> None:
        """Nothing to say."""

    def timed(self, share: float) -> Any:
        return nullcontext()

    def record(self, step: int, save: bool, interrupted: bool) -> Totals | None:
        totals = self.trainer.fetch()
        if totals.bad_step is not None:
            self.failure = EndedElsewhere("the first process says why")
            return None
        self.step = step
        return totals


def _share_state(member: Member) -> None:
    """Give all processes the first one's step and state."""
    content = torch.empty(0, dtype=torch.uint8)
    if not dist.get_rank():
        state = member.trainer.state() | {_STEP: torch.tensor(member.step)}
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}
        content = torch.frombuffer(bytearray(safetensors.torch.save(tensors)), dtype=torch.uint8)
    size = torch.tensor(len(content))
    dist.broadcast(size, 0)
    content = content if len(content) else torch.empty(int(size), dtype=torch.uint8)
    dist.broadcast(content, 0)
    if dist.get_rank():
        tensors = safetensors.torch.load(content.numpy().tobytes())
        member.step = int(tensors.pop(_STEP))
        member.trainer.load(Checkpoint(member.step, tensors))
