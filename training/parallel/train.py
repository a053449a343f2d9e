"""The training of one run by the processes of torchrun.

torchrun --nproc-per-node=2 run.py task=linear training.shards=2
"""

from __future__ import annotations

from contextlib import ExitStack

from reloop.conf.checks.processes import Launch, check_launch
from reloop.conf.mistakes import RunError
from reloop.conf.schema import Config

from ..loop import train_members
from ..run_folder.run import Run
from .members import Follower, Leader
from .processes import Processes, joined


def train_in_processes(
    config: Config, launch: Launch, again: bool, until: int | None
) -> Run | RunError:
    """As `train`, called by each of the processes: all return the run with its weights, or the
    RunError of its divergence. The number of processes may differ from one start to the next.

    Raises what `train` does, in one process; EndedElsewhere in the others, which therefore need not
    report it.
    """
    check_launch(config, launch)
    with joined(launch) as processes, ExitStack() as stack:
        with processes.all_or_none():
            member = _member(config, processes)
        if not processes.same(member.facts()):
            with processes.all_or_none():
                raise RunError("the processes of torchrun differ in run, device or torch's version")
        processes.open(member.trainer.device)
        with processes.all_or_none():
            if isinstance(member, Leader):
                _open_folder(member, again, stack)
        member.share()
        processes.hold_signals()
        try:
            train_members([member], until)
        except OSError as error:
            raise RunError(
                f"{member.folder.path}: {error}; the last checkpoint is intact"
            ) from None
        return member.failure or member.run()


def _member(config: Config, processes: Processes) -> Leader | Follower:
    processes.take_gpu(config.device)
    return (Follower if processes.rank else Leader)(config, processes)


def _open_folder(leader: Leader, again: bool, stack: ExitStack) -> None:
    """Lock the run's folder for as long as the stack, and restore the run."""
    if again:
        leader.set_aside()
    leader.hold = stack.enter_context(leader.folder.lock())
    stack.callback(leader.close)
    try:
        leader.restore()
    except OSError as error:
        raise RunError(f"{leader.folder.path}: {error}; the last checkpoint is intact") from None
