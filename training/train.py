"""The one training loop, for a run or for several that are computed together.

run = train(Config(task=TaskConfig("linear", dims=3, points=7)))     # trains, or finds it done
runs = train_together([replace(config, seed=seed) for seed in (0, 1, 2)])
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from reloop.conf.mistakes import ConfigError, RunError
from reloop.conf.schema import Config

from .logging import Screen
from .member import Member
from .memory import told_when_full
from .run_folder.run import Run
from .signals import Interrupted, noted_signals
from .together import Together, alone, difference
from .work import Work


def train(config: Config, again: bool = False, until: int | None = None) -> Run:
    """Train as configured in the run folder that belongs to the configuration, or go on there.

    A finished run is returned as it is. With `until` training pauses, saved, after that many steps,
    if it has not come further before; the next call goes on. With `again` what is there is set
    aside under another name and training starts again, unless it is an unfinished training by
    today's code: that goes on, to the same end. Raises ConfigError for a mistake in the
    configuration (nothing is written then), Interrupted at Ctrl-C or SIGTERM (everything is saved),
    HeldElsewhere where another process holds the folder, RunError where the disk is full, or
    training diverged.
    """
    (run,) = train_together([config], again, until)
    if isinstance(run, RunError):
        raise run
    return run


def train_together(
    configs: Sequence[Config], again: bool = False, until: int | None = None
) -> list[Run | RunError]:
    """Train runs whose models have one shape in one computation, as `train` does each: its result,
    or the RunError of a training that diverged, which leaves the others alone.

    Configurations may differ in seed, rates, optimiser and what else `together.OWN` names. Each has
    its own run folder, which a call of `train` can go on with, and ends with the weights that it
    has alone up to the rounding of batched products. One that stands at an earlier step than the
    others catches up first. Raises what `train` does, and ConfigError, naming the setting, for
    configurations that cannot be trained together.
    """
    _check_together(configs)
    members = [Member(config) for config in configs]
    for member in members:
        if again:
            member.set_aside()
    with ExitStack() as open_until_end:
        for member in members:
            open_until_end.enter_context(member.folder.lock())
            open_until_end.callback(member.close)
        try:
            for member in members:
                member.restore()
            _train(members, until)
        except OSError as error:
            where = members[0].folder.path if len(members) == 1 else configs[0].folder
            raise RunError(f"{where}: {error}; the last checkpoint is intact") from None
    return [member.failure or member.run() for member in members]


def _check_together(configs: Sequence[Config]) -> None:
    for index, config in enumerate(configs[1:]):
        if config in configs[: index + 1]:
            raise ConfigError("seed", "must differ, or another setting, in runs trained together")
        if key := difference(configs[0], config):
            raise ConfigError(key, "cannot differ in runs that are trained together")
    if len(configs) > 1 and (reason := alone(configs[0])):
        raise ConfigError("together", f"cannot be: {reason}")


def _train(members: Sequence[Member], until: int | None) -> None:
    """Make the steps that are missing, always of those members that stand furthest back."""
    steps = members[0].config.training.steps
    end = steps if until is None else min(until, steps)
    for member in members:
        if member.step < end:
            member.begin()
    with noted_signals() as signals:
        while missing := [m for m in members if m.step < end and m.failure is None]:
            first = min(member.step for member in missing)
            group = [member for member in missing if member.step == first]
            others = [member.step for member in missing if member.step > first]
            with told_when_full(group[0].config, group[0].folder.path):
                _train_group(group, min(others, default=end), end, signals)


def _train_group(group: Sequence[Member], stop_at: int, end: int, signals: list[int]) -> None:
    """Steps of members that stand at the same one, up to `stop_at`, or until one of them diverges.
    The device is waited for only where something is logged or saved."""
    trainers, training, step = [m.trainer for m in group], group[0].config.training, group[0].step
    trainer = trainers[0] if len(group) == 1 else Together(trainers)
    work = Work(trainers[0].curriculum, training.steps)
    with Screen(training.steps, step, work) as screen, ExitStack() as clocks:
        for member in group:
            clocks.enter_context(member.timed(1 / len(group)))
        while step < stop_at:
            trainer.update(step)
            step += 1
            screen.tick()
            stop = bool(signals)  # read once: a signal from here on is the next step's
            save = stop or step == end or step % training.checkpoint_every == 0
            if not save and step % training.log_every:
                continue
            paused = stop or step == end
            records = [record for m in group if (record := m.record(step, save, paused))]
            screen.write(records)
            if stop:
                raise Interrupted(signals[0], step)
            if len(records) < len(group):
                return
    for member in group:
        member.step = step
