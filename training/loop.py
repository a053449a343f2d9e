"""The training loop, for a run or for several that are trained together.

run = train(Config(task=TaskConfig("linear", dims=3, points=7)))     # or the finished run
runs = train_together([replace(config, seed=seed) for seed in (0, 1, 2)])
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from looplab.conf.checks.processes import launched
from looplab.conf.mistakes import ConfigError, RunError, out_of_memory
from looplab.conf.schema import Config

from .logging import Screen
from .member import Member
from .progress import Work
from .run_folder.run import Run
from .signals import Interrupted, deferred_signals
from .together import Together, difference, obstacle


def train(config: Config, again: bool = False, until: int | None = None) -> Run:
    """Train in the run folder of the configuration, or go on from its last checkpoint.

    A finished run is returned without training. With `until` training saves and pauses after that
    many steps, unless it is further already; the next call goes on. With `again` an existing folder
    is renamed and training starts again, except for an unfinished training by today's code that has
    its snapshots so far, which goes on, to the same end. Raises ConfigError for a mistake in the
    configuration (before anything is written), Interrupted at Ctrl-C or SIGTERM (everything is
    saved), HeldElsewhere where another process holds the folder, RunError where the disk is full,
    or training diverged.

    Under torchrun all its processes call this and train the run together (processes.py): the first
    writes, each returns the run.
    """
    (run,) = train_together([config], again, until)
    if isinstance(run, RunError):
        raise run
    return run


def train_together(
    configs: Sequence[Config], again: bool = False, until: int | None = None
) -> list[Run | RunError]:
    """Train runs whose models have one shape together: for each the result of `train`, or the
    RunError of its divergence, which does not affect the others.

    Configurations may differ in seed, rates, optimiser and the other settings of
    `together._MAY_DIFFER`. Each has its own run folder, which a call of `train` can go on with.
    They are one computation, and end with the weights of a single training up to the rounding of
    batched products. A run at an earlier step than the others catches up first. Raises what `train`
    does, and ConfigError, naming the setting, for configurations that cannot be trained together.
    """
    if (launch := launched()) is not None:
        if len(configs) > 1:
            raise ConfigError("torchrun", "is for one training, not for several together")
        # Only here: no other training needs torch.distributed.
        from .processes import joined

        with joined(configs[0], launch, again) as member:
            train_members([member], until)
            return [member.failure or member.run()]
    for config in configs[1:]:
        if key := difference(configs[0], config):
            raise ConfigError(key, "cannot differ in runs that are trained together")
    if len(configs) > 1 and (reason := obstacle(configs[0])):
        raise ConfigError("together", f"cannot be: {reason}")
    members = [Member(config) for config in configs]
    if len({member.folder.path for member in members}) < len(members):
        raise ConfigError("seed", "must differ, or another setting, in runs trained together")
    if len({member.trainer.device for member in members}) > 1:
        raise ConfigError("device", "cannot differ in runs that are trained together")
    for member in members:
        if again:
            member.set_aside()
    with ExitStack() as stack:
        for member in members:
            stack.enter_context(member.folder.lock())
            stack.callback(member.close)
        try:
            for member in members:
                member.restore()
            train_members(members, until)
        except OSError as error:
            path = Path(members[0].folder.path if len(members) == 1 else configs[0].folder)
            end = "the last checkpoint is intact" if path.exists() else "the folder was removed"
            raise RunError(f"{path}: {error}; {end}") from None
    return [member.failure or member.run() for member in members]


def train_members(members: Sequence[Member], until: int | None) -> None:
    """Make the remaining steps, always of the members at the earliest step."""
    steps = members[0].config.training.steps
    end = steps if until is None else min(until, steps)
    for member in members:
        if member.step < end:
            member.begin()
    with deferred_signals() as signals:
        while pending := [m for m in members if m.step < end and m.failure is None]:
            first = min(member.step for member in pending)
            group = [member for member in pending if member.step == first]
            later_steps = [member.step for member in pending if member.step > first]
            try:
                _train_group(group, min(later_steps, default=end), end, signals)
            except (MemoryError, RuntimeError) as error:
                if not out_of_memory(error):
                    raise
                raise RunError(
                    f"{group[0].folder.path}: out of memory in a step; training.shards=2 or more, "
                    "a smaller training.batch_size or loops.T need less, and so does "
                    "together=false; the last checkpoint is intact"
                ) from None


def _train_group(group: Sequence[Member], stop_at: int, end: int, signals: list[int]) -> None:
    """Train members at the same step up to `stop_at`, or until one of them diverges. The host waits
    for the device only to log or save."""
    trainers, training, step = [m.trainer for m in group], group[0].config.training, group[0].step
    trainer = trainers[0] if len(trainers) == 1 else Together(trainers)
    work = Work(trainers[0].curriculum, training.steps)
    snapshots = {each for member in group for each in member.config.training.snapshots}
    screen = Screen(training.steps, step, work, group[0].shown)
    with screen, ExitStack() as clocks:
        for member in group:
            clocks.enter_context(member.timed(1 / len(group)))
        while step < stop_at:
            trainer.update(step)
            step += 1
            screen.tick()
            # Read once: a later signal counts for the next step.
            stop = group[0].stop_signal(signals)
            save = bool(stop) or step == end or step % training.checkpoint_every == 0
            if not save and step % training.log_every and step not in snapshots:
                continue
            paused = bool(stop) or step == end
            records = [member.record(step, save, paused) for member in group]
            if losses := [record.loss for record in records if record]:
                screen.write(step, trainers[0].curriculum(step - 1), losses)
            if stop:
                raise Interrupted(stop, step)
            if None in records:
                return
    for member in group:
        member.step = step
