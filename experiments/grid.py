"""A grid: many runs of one command, an experiment without claims, trained here or by Slurm, as a
job array of submitit.

result = train_grid("task=linear", "loops.b=4,8", "seed=0,1"); result["effects"]
"""

from __future__ import annotations

import io
import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from looplab.conf.actions import Command
from looplab.conf.checks.reach import check_reach
from looplab.conf.compose import commands as composed
from looplab.conf.compose import grid_commands
from looplab.conf.imports import HOME
from looplab.conf.in_words import in_words
from looplab.conf.lazy import optional
from looplab.conf.mistakes import ConfigError, RunError
from looplab.conf.setting import check_settings
from looplab.evaluation.evaluated_run import EvaluatedRun
from looplab.evaluation.run_sets import BEGUN
from looplab.show.panel import Panel, file_name
from looplab.show.panel_spec import PanelSpec
from looplab.show.standard_panels import panels
from looplab.show.tables import document
from looplab.training.assemble import build_task
from looplab.training.curriculum_end import shortened
from looplab.training.device import place, torch_defaults
from looplab.training.jobs import processes_for
from looplab.training.run_folder.files import write_record
from looplab.training.run_folder.run import run_folder
from looplab.training.run_folder.status import status_of

from .engine import evaluated
from .grid_result import Grid, GridResult, summarise
from .many_runs import is_done, train_all
from .one_command import check_evaluation_of
from .settings import EngineSettings, GridSettings

_CLUSTER = "slurm"
_BEFORE = 90  # seconds before the end at which a task of Slurm goes back into the line
_MOST_PANELS = 24  # of one kind; the tables have all numbers


@torch_defaults()
def train_grid(*words: str, jobs: int | None = None) -> GridResult:
    """Train and evaluate every combination of comma-separated values, as `run.py -m` does.

    What is finished is not trained again: the same words give the same result.

    Parameters
    ----------
    *words : str
        Those of the command line; `seed=0,1,2` makes three runs of each setting.
    jobs : int, optional
        Processes at once; one a core, or one on a GPU, where not given. With 1 every run is made in
        this process, as a task or loop that a notebook's cell defines needs it.

    Returns
    -------
    dict
        The content of result.json in the grid's folder, with its `path`. `effects` are rows of two
        values of one setting, with the `ratio` of their errors at the last k `over` the other
        settings, its 90 % interval and p-value. `settings` are rows, each with the error of one
        combination at the last k, `last`, and `mean_over_k`, with intervals over seeds and prompts.
        `tests` are rows of two combinations that differ in one value, with the `ratio` of their
        errors. `plot` draws its pictures.

    Raises
    ------
    ConfigError
        For a mistake in the words, before anything is written.
    RunError
        Where runs failed, after the others are trained and the result is written.

    Examples
    --------
    >>> from looplab import train_grid
    >>> small = ["task.dims=2", "task.points=5", "model.n_embd=16", "model.n_head=2"]
    >>> words = ["task=linear", "training.steps=2", *small, "loops.b=1,2", "loops.T=1"]
    >>> result = train_grid(*words, jobs=1)  # doctest: +ELLIPSIS
    2 runs, one at a time; ...
    >>> len(result["settings"]), len(result["effects"])
    (2, 1)
    """
    check_settings("", GridSettings(jobs=jobs))
    commands = grid_commands(words)
    _check(commands)
    grid = Grid.of(commands)
    failures = _train(grid, jobs, again=commands[0].again)
    result = _result(grid, failures)
    if failures:
        path, reason = next(iter(failures.items()))
        raise RunError(f"{path}: {reason}; the others are in {result['path']}")
    return result


def run_grid(commands: Sequence[Command], settings: GridSettings) -> int:
    """Train and evaluate the runs of a grid, in this process and in any others that run the same
    command, then write and print the result; the exit code: 1 where one failed.

    Raises as `train_all`, ConfigError for a device that is not there, before anything is written,
    and RunError where Slurm refuses.
    """
    grid = Grid.of(commands)
    first = commands[0]
    _check(commands)
    if settings.engine.name == "slurm":
        if first.again:
            problem = "a task that Slurm starts anew would begin from the first step"
            raise ConfigError("again", f"cannot be true with engine=slurm: {problem}")
        submitted = _submit(grid, settings.engine)
        if submitted:
            print(submitted)
            return 0
    failures = _train(grid, settings.jobs, _devices(settings.devices), again=first.again)
    result = _result(grid, failures)
    text = document(result.parts, first.config.tables.format)
    files = "effects.csv, settings.csv, tests.csv, summary.md, summary.tex, figures/"
    print(f"\n{text}\n{grid.folder}: {files}", flush=True)
    return 1 if failures else 0


def _check(commands: Sequence[Command]) -> None:
    """Raises ConfigError for the first evaluation that cannot be made."""
    checked = set[str]()
    for command in commands:
        config = command.config
        evaluation = repr((config.task, config.evaluation))
        if evaluation not in checked:
            check_evaluation_of(config)
        checked.add(evaluation)


def _train(
    grid: Grid, jobs: int | None, devices: Sequence[str] = (), again: bool = False
) -> dict[str, str]:
    """Train and evaluate the runs of a grid, as `train_all`, and say how many."""
    configs = [member.config for member in grid.members]
    logs = grid.folder / "logs"
    for device, precision, backend in {(c.device, c.precision, c.backend) for c in configs}:
        place(device, precision, backend)  # refuses what this machine cannot do
    for config in configs:
        if status_of(run_folder(config).path)["state"] != "finished":
            check_reach(config)
    at_once = processes_for(len(configs), jobs or len(devices) or None, configs[0])
    times = "one at a time" if at_once == 1 else f"{at_once} at a time"
    output = f", their output: {logs}" if at_once > 1 else ""
    print(f"{len(configs)} runs, {times}; their result: {grid.folder}{output}", flush=True)
    for line in shortened([(config, build_task(config)) for config in configs]):
        print(f"  {line}", flush=True)
    has_group = "WANDB_RUN_GROUP" in os.environ  # wandb reads it
    os.environ.setdefault("WANDB_RUN_GROUP", grid.folder.name)
    _begin(grid)
    try:
        return train_all(grid.members, logs, jobs, devices, again=again)
    finally:
        if not has_group:
            del os.environ["WANDB_RUN_GROUP"]


def _begin(grid: Grid) -> None:
    """Write down what the grid is, with its runs as a result.json has them, so that it is found
    where it is interrupted."""
    runs = []
    for member in grid.members:
        path = str(run_folder(member.config).path)
        runs.append({"run": path, "label": member.label, "seed": member.config.seed})
    content = {"title": grid.title, "command": grid.command, "members": runs}
    grid.folder.mkdir(parents=True, exist_ok=True)
    write_record(grid.folder / f"{BEGUN}.json", BEGUN, content)


def _devices(numbers: Sequence[int]) -> tuple[str, ...]:
    """The CUDA devices as CUDA_VISIBLE_DEVICES names them. Raises ConfigError for one that is not
    there."""
    count = torch.cuda.device_count()
    if numbers and max(numbers) >= count:
        have = f"{count} CUDA device{'s' * (count != 1)}"
        raise ConfigError("devices", f"names device {max(numbers)}, but this machine has {have}")
    # Numbers count within the devices that this process sees, which may be renamed.
    names = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(count)))
    return tuple(names.split(",")[number] for number in numbers)


def _submit(grid: Grid, engine: EngineSettings) -> str:
    """Submit the members that are not done, `engine.pack` in a task, with the output in the
    grid's folder slurm/; what was submitted, as text, empty where all are done.

    Raises ConfigError where this machine has no Slurm or submitit is not installed, and RunError
    with Slurm's words where it refuses.
    """
    if shutil.which("sbatch") is None:
        raise ConfigError("engine", "cannot be slurm: this machine has no sbatch")
    submitit = optional("engine", "submitit", "AutoExecutor", "submitit==1.5.4")
    unfinished = [member for member in grid.members if not is_done([member], shipped=False)]
    missing = [list(member.words) for member in unfinished]
    if not missing:
        return ""
    tasks = []
    for first in range(0, len(missing), engine.pack):
        # When its time is up it goes back into the line; its runs go on from their checkpoints.
        task = submitit.helpers.FunctionSequence()
        task.add(_task, missing[first : first + engine.pack], str(grid.folder / "logs"))
        tasks.append(task)
    options = _slurm_options(grid.folder.name, engine, len(tasks))
    said = io.StringIO()  # it prints what it raises
    try:
        with redirect_stderr(said):
            folder = grid.folder / "slurm"
            executor = submitit.AutoExecutor(folder, _CLUSTER, slurm_max_num_timeout=10**6)
            executor.update_parameters(**options)
            jobs = executor.submit_array(tasks)
            _begin(grid)
    except (RuntimeError, OSError) as error:  # FailedJobError is a RuntimeError
        lines = f"{said.getvalue()}\n{error}".splitlines()
        reason = next(line.strip() for line in reversed(lines) if line.strip())
        raise RunError(f"Slurm refused: {reason}") from None
    # 1234_0 is the first task of the array 1234.
    number = jobs[0].job_id.partition("_")[0]
    array = f"Slurm array {number}: {len(missing)} of {len(grid.members)} runs"
    count = f"{len(tasks)} task{'s' * (len(tasks) > 1)}"
    shows = f"squeue --job={number} shows them"
    return f"{array} in {count}; {shows}, the same command writes the result when they are done"


def _slurm_options(name: str, engine: EngineSettings, tasks: int) -> dict[str, Any]:
    """What submitit asks Slurm for, for an array of so many tasks."""
    path = os.environ.get("PYTHONPATH", "")
    path = f"{HOME}{os.pathsep}{path}" if path else str(HOME)
    setup = [f"export PYTHONPATH={shlex.quote(path)}", f"export OMP_NUM_THREADS={engine.cpus}"]
    options = {
        "name": name,
        "timeout_min": engine.minutes,
        "cpus_per_task": engine.cpus,
        "mem_gb": engine.memory,
        "gpus_per_node": engine.gpus or None,
    }
    # An empty value would be passed on to sbatch.
    options["slurm_partition"] = engine.partition or None
    options["slurm_account"] = engine.account or None
    options["slurm_array_parallelism"] = min(engine.at_once, tasks)
    options["slurm_signal_delay_s"] = min(_BEFORE, engine.minutes * 30)
    options["slurm_setup"] = setup + list(engine.setup)
    return options


def _task(members: Sequence[Sequence[str]], logs: str) -> None:
    """Train and evaluate members, given by their words. Raises RunError where runs failed, after
    the others."""
    # A node composes the runs anew from their words.
    grid = Grid.of([composed(list(words))[0] for words in members])
    if failures := train_all(grid.members, Path(logs)):
        raise RunError("; ".join(f"{path}: {why}" for path, why in failures.items()))


def _result(grid: Grid, failures: Mapping[str, str]) -> GridResult:
    """The result of what is trained, measured where it is not."""
    runs = [evaluated(member, failures, shipped=False) for member in grid.members]
    return summarise(grid, runs, failures, grid_panels(grid, runs))


def grid_panels(grid: Grid, runs: Sequence[EvaluatedRun]) -> list[Panel]:
    """The panels of the finished runs. The varied setting with most values, if they are numbers, is
    an x axis, another one has a curve for each of its values, and each combination of the others a
    panel of its own; by examples, the first one has the curves. Errors are those after b loops, as
    in the tables."""
    finished = []
    for settings, run in zip(grid.settings, runs, strict=True):
        # A spec draws "model", which is at evaluation.loops; the tables have errors at b.
        at_b = run.arrays.get("model_at_b")
        if at_b is not None:
            finished.append((settings, replace(run, arrays={**run.arrays, "model": at_b})))
    values = {}
    for key in grid.compared:
        values[key] = list(dict.fromkeys(settings[key] for settings, _ in finished))
    keys = sorted(grid.compared, key=lambda key: -len(values[key]))
    numeric = [key for key in keys if len(values[key]) > 1 and _numbers(values[key])]
    if not numeric:
        return _panels(PanelSpec("by_examples"), keys[0] if keys else "", finished)
    x = numeric[0]
    curves = next((key for key in keys if key != x), "")
    by_value = _panels(PanelSpec("by_value", x=x), curves, finished)
    return by_value + _panels(PanelSpec("by_examples"), x, finished)


def _numbers(values: Sequence[str]) -> list[float]:
    """The values as numbers; empty where one is none."""
    with suppress(ValueError):
        return [float(value) for value in values]
    return []


def _panels(
    spec: PanelSpec, key: str, runs: Sequence[tuple[Mapping[str, str], EvaluatedRun]]
) -> list[Panel]:
    """The panels of each combination of the values of all other settings, with a curve for each
    value of the setting `key`, if there is one."""
    combinations: dict[str, list[EvaluatedRun]] = {}
    values: dict[str, str] = {}  # by the label of their curve
    for settings, run in runs:
        label: str = run.config.model.family
        if key:
            label = in_words(key, settings[key])
            values[label] = settings[key]
        others = [in_words(k, value) for k, value in settings.items() if k not in (key, spec.x)]
        combinations.setdefault(", ".join(others), []).append(replace(run, label=label))
    numbers = dict(zip(values, _numbers([*values.values()]), strict=False))
    drawn = []
    for combination, members in combinations.items():
        for panel in panels([spec], members):
            if combination:
                name = f"{panel.name}-{file_name(combination)}"
                panel = replace(panel, name=name, title=f"{panel.title}, {combination}")
            curves = [replace(curve, number=numbers.get(curve.label)) for curve in panel.curves]
            drawn.append(replace(panel, curves=curves))
    return drawn[:_MOST_PANELS]
