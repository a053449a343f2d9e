"""A grid: many runs of one command, an experiment without claims, with tables over its settings;
trained here or by Slurm, as a job array of submitit.

result = train_grid("task=linear", "loops.b=4,8", "seed=0,1"); result["settings"]
"""

from __future__ import annotations

import io
import os
import shlex
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, suppress
from dataclasses import dataclass, replace
from itertools import combinations, starmap
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pandas import DataFrame

from looplab.conf.actions import Command
from looplab.conf.checks.reach import check_reach
from looplab.conf.checksum import key_of
from looplab.conf.compose import commands as composed
from looplab.conf.compose import grid_commands
from looplab.conf.imports import HOME
from looplab.conf.in_words import in_words, name_in_words
from looplab.conf.lazy import optional
from looplab.conf.mistakes import ConfigError, RunError
from looplab.conf.schema import FigureSettings
from looplab.conf.setting import check_settings
from looplab.conf.words import run_py
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.measured import Measured
from looplab.evaluation.run_sets import BEGUN
from looplab.evaluation.statistics import finite, hierarchical_bootstrap, hierarchical_test
from looplab.show.panel import Panel, file_name
from looplab.show.panel_spec import PanelSpec
from looplab.show.report import Result
from looplab.show.standard_panels import panels
from looplab.show.tables import Part, Table, document
from looplab.training.assemble import build_task
from looplab.training.curriculum_end import shortened
from looplab.training.device import place, torch_defaults
from looplab.training.jobs import processes_for
from looplab.training.run_folder.files import write_bytes, write_record
from looplab.training.run_folder.run import run_folder
from looplab.training.run_folder.status import status_of

from .definition import Experiment, Member, described
from .engine import measured, remark_lines, result_of, show_result
from .many_runs import is_done, train_all
from .one_command import check_evaluation_of
from .settings import EngineSettings, GridSettings

_CLUSTER = "slurm"
_BEFORE = 90  # seconds before the end at which a task of Slurm goes back into the line
_MOST_TESTS, _MOST_SHOWN = 300, 12
_MOST_PANELS = 24  # of one kind; the tables have all numbers


@dataclass(frozen=True)
class Grid:
    """Members of one command that differ in the settings `varied`; `shared` are the other words.
    Members of one label differ in the seed alone: `settings` has the other varied values of each.
    `figures` is for the pictures of the grid; those of its members have other curves to be named.
    """

    members: tuple[Member, ...]
    varied: tuple[str, ...]
    shared: tuple[str, ...]
    settings: Mapping[str, Mapping[str, str]]
    command: str
    figures: FigureSettings

    @classmethod
    def of(cls, commands: Sequence[Command]) -> Grid:
        """The grid of commands that train."""
        words = [dict(word.split("=", 1) for word in command.words) for command in commands]
        keys = list(dict.fromkeys(key for each in words for key in each))
        varied = tuple(key for key in keys if len({each.get(key) for each in words}) > 1)
        members, settings = [], {}
        for command, each in zip(commands, words, strict=True):
            own = {key: each.get(key, "") for key in varied if key != "seed"}
            label = " ".join(f"{key}={value}" for key, value in own.items())
            label = label or command.config.model.family
            figures = replace(command.config.figures, labels=())
            config = replace(command.config, figures=figures)
            members.append(Member(label, command.words, config))
            settings[label] = own
        shared = tuple(f"{key}={words[0][key]}" for key in keys if key not in varied)
        values = {key: dict.fromkeys(each.get(key, "") for each in words) for key in varied}
        swept = [f"{key}={','.join(each)}" for key, each in values.items()]
        command_line = run_py("-m", *shared, *swept)
        figures = commands[0].config.figures
        return cls(tuple(members), varied, shared, settings, command_line, figures)

    @property
    def title(self) -> str:
        """What it is over."""
        return f"a grid over {', '.join(map(name_in_words, self.varied)) or 'one run'}"

    def in_words(self, label: str) -> str:
        """A label in words."""
        return ", ".join(starmap(in_words, self.settings[label].items())) or label

    @property
    def folder(self) -> Path:
        """Its folder, grid-<name>-<hash of runs and evaluations>, beside those of its runs: the
        same for the same runs in another order."""
        configs = [member.config for member in self.members]
        parts = [[run_folder(each).path.name, each.evaluation.plain()] for each in configs]
        key, name = key_of(sorted(parts, key=str), 8), configs[0].name
        return Path(configs[0].folder) / (f"grid-{name}-{key}" if name else f"grid-{key}")


class GridResult(Result):
    """The plain dict of a grid's result.json with its `path`, shown as its tables."""

    def __init__(self, content: Mapping[str, Any], parts: list[Part]) -> None:
        super().__init__(content)
        self._parts = parts

    @property
    def parts(self) -> Sequence[Part]:
        """What the command prints."""
        return self._parts


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
        The content of result.json in the grid's folder, with its `path`. `settings` are rows, each
        with a setting's error at the last k, `last`, and `mean_over_k`, with 90 % intervals over
        seeds and prompts; `tests` are rows of two settings that differ in one value, with the
        `ratio` of their errors at the last k and its p-value. `plot` draws its pictures.

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
    >>> len(result["settings"]), len(result["tests"])
    (2, 1)
    """
    check_settings("", GridSettings(jobs=jobs))
    commands = grid_commands(words)
    _check(commands)
    grid = Grid.of(commands)
    failures = _train(grid, jobs, again=commands[0].again)
    result = summarise(grid, failures)
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
    grid, first = Grid.of(commands), commands[0]
    _check(commands)
    if settings.engine.name == "slurm" and (said := _submit(grid, settings.engine)):
        print(said)
        return 0
    failures = _train(grid, settings.jobs, _devices(settings.devices), again=first.again)
    result = summarise(grid, failures)
    text = document(result.parts, first.config.tables.format)
    files = "settings.csv, tests.csv, summary.md, summary.tex, figures/"
    print(f"\n{text}\n{grid.folder}: {files}", flush=True)
    return 1 if failures else 0


def _check(commands: Sequence[Command]) -> None:
    """Raises ConfigError for the first evaluation that cannot be made."""
    configs = [command.config for command in commands]
    for config in {repr((each.task, each.evaluation)): each for each in configs}.values():
        check_evaluation_of(config)


def _train(
    grid: Grid, jobs: int | None, devices: Sequence[str] = (), again: bool = False
) -> dict[str, str]:
    """Train and evaluate the runs of a grid, as `train_all`, and say how many."""
    configs, logs = [member.config for member in grid.members], grid.folder / "logs"
    for asked in {(config.device, config.precision, config.backend) for config in configs}:
        place(*asked)
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
        path, label = str(run_folder(member.config).path), grid.in_words(member.label)
        runs.append({"run": path, "label": label, "seed": member.config.seed})
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
    missing = [
        list(member.words) for member in grid.members if not is_done([member], shipped=False)
    ]
    if not missing:
        return ""
    tasks = []
    for first in range(0, len(missing), engine.pack):
        # When its time is up it goes back into the line; its runs go on from their checkpoints.
        tasks.append(submitit.helpers.FunctionSequence())
        tasks[-1].add(_task, missing[first : first + engine.pack], str(grid.folder / "logs"))
    path = os.pathsep.join(filter(None, (str(HOME), os.environ.get("PYTHONPATH", ""))))
    said = io.StringIO()  # it prints what it raises
    try:
        with redirect_stderr(said):
            folder = grid.folder / "slurm"
            executor = submitit.AutoExecutor(folder, _CLUSTER, slurm_max_num_timeout=10**6)
            executor.update_parameters(
                name=grid.folder.name,
                timeout_min=engine.minutes,
                cpus_per_task=engine.cpus,
                mem_gb=engine.memory,
                gpus_per_node=engine.gpus or None,
                slurm_partition=engine.partition or None,
                slurm_account=engine.account or None,
                slurm_array_parallelism=min(engine.at_once, len(tasks)),
                slurm_signal_delay_s=min(_BEFORE, engine.minutes * 30),
                slurm_setup=[
                    f"export PYTHONPATH={shlex.quote(path)}",
                    f"export OMP_NUM_THREADS={engine.cpus}",
                    *engine.setup,
                ],
            )
            jobs = executor.submit_array(tasks)
            _begin(grid)
    except (RuntimeError, OSError) as error:  # FailedJobError is a RuntimeError
        lines = f"{said.getvalue()}\n{error}".splitlines()
        reason = next(line.strip() for line in reversed(lines) if line.strip())
        raise RunError(f"Slurm refused: {reason}") from None
    number = jobs[0].job_id.partition("_")[0]
    return (
        f"Slurm array {number}: {len(missing)} of {len(grid.members)} runs in {len(tasks)} "
        f"task{'s' * (len(tasks) > 1)}; squeue --job={number} shows them, the same command "
        "writes the result when they are done"
    )


def _task(members: Sequence[Sequence[str]], logs: str) -> None:
    """Train and evaluate members, given by their words. Raises RunError where runs failed, after
    the others."""
    grid = Grid.of([composed(list(words))[0] for words in members])
    if failures := train_all(grid.members, Path(logs)):
        raise RunError("; ".join(f"{path}: {why}" for path, why in failures.items()))


def summarise(grid: Grid, failures: Mapping[str, str]) -> GridResult:
    """Write the result of a grid and return it. `failures` are the reasons why runs failed,
    by the path of their folder. Beside what an experiment's has, its result.json has the settings
    `varied` and `shared`, and the rows of settings.csv and tests.csv."""
    runs = [measured(member, failures, shipped=False) for member in grid.members]
    config, folder = grid.members[0].config, grid.folder
    experiment = Experiment(folder.name, "", grid.title, "a grid of your own")
    result = result_of(experiment, grid.members, runs, failures, shipped=False) | {
        "scale": config.scale,
        "command": grid.command,
        "panels": grid_panels(grid, runs),
        "verdicts": [],
    }
    errors = errors_by_setting(runs)
    settings, tests = setting_rows(grid, errors), paired_tests(grid, errors)
    result |= {"varied": [key for key in grid.varied if key != "seed"], "shared": [*grid.shared]}
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in (("settings", settings), ("tests", tests)):
        result[name] = [
            {key: finite(each) if isinstance(each, float) else each for key, each in row.items()}
            for row in rows
        ]
        csv = DataFrame(rows).to_csv(index=False, float_format="%.6g")
        write_bytes(folder / f"{name}.csv", csv.encode())
    names = {label: grid.in_words(label) for label in errors}
    states = Counter(each["state"] for each in result["members"])
    counts = [f"{states.pop('finished', 0)} done", f"{states.pop('failed', 0)} failed"]
    parts: list[Part] = [
        " ".join(grid.shared),
        ", ".join([*counts, *(f"{number} {state}" for state, number in states.items())]),
        *_tables(names, settings, tests),
        *remark_lines(grid.members, result),
        *(
            f"failed: {name}: {each['remarks'][0]}"
            for name, each in zip(described(grid.members), result["members"], strict=True)
            if each["state"] == "failed"
        ),
    ]
    write_bytes(folder / "summary.md", f"{document(parts, 'markdown')}\n".encode())
    write_bytes(folder / "summary.tex", f"{document(parts, 'latex')}\n".encode())
    show_result(result, folder, grid.figures)
    plain = [panel.plain() for panel in result["panels"]]
    return GridResult({**result, "panels": plain, "path": str(folder)}, parts)


def errors_by_setting(runs: Sequence[Measured]) -> dict[str, Floats]:
    """The errors of the finished runs of each label at b loops, [seeds, prompts, k]."""
    found: dict[str, list[Floats]] = {}
    for run in runs:
        if run.arrays:
            errors = np.asarray(run.arrays["model_at_b"], np.float64)
            found.setdefault(run.label, []).append(errors)
    return {label: np.stack(each) for label, each in found.items()}


def setting_rows(grid: Grid, errors: Mapping[str, Floats]) -> list[dict[str, Any]]:
    """A row for each setting: its seeds, and its error at the last k and mean over k, each with a
    90 % interval over seeds and prompts."""
    rows = []
    for label, values in errors.items():
        row = {**grid.settings[label], "seeds": len(values), "k": values.shape[2] - 1}
        for name, part in {"last": values[:, :, -1], "mean_over_k": values.mean(2)}.items():
            estimate = hierarchical_bootstrap([part], itemgetter(0))
            row |= {name: estimate.mean, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
        rows.append({**row, "note": estimate.note})
    return rows


def paired_tests(grid: Grid, errors: Mapping[str, Floats]) -> list[dict[str, Any]]:
    """A row for each two settings that differ in one value and were measured on the same prompts,
    at most 300: the ratio of the first's error at the last k to the second's with its 90 %
    interval, its p-value, and that by Holm (1979) for all."""
    prompts = {}
    for each in grid.members:
        evaluation = each.config.evaluation
        prompts[each.label] = (each.config.task, evaluation.prompts, evaluation.seed)
    rows: list[dict[str, Any]] = []
    for first, second in combinations(errors, 2):
        one, other = grid.settings[first], grid.settings[second]
        keys = [key for key in one if one[key] != other[key]]
        if len(keys) != 1 or prompts[first] != prompts[second] or len(rows) == _MOST_TESTS:
            continue
        parts = [errors[first][:, :, -1], errors[second][:, :, -1]]
        ratio = hierarchical_bootstrap(parts, lambda means: means[0] / means[1], log=True)
        p = hierarchical_test(parts, lambda means: np.log(means[0]) - np.log(means[1]))
        row: dict[str, Any] = {"differ in": keys[0], "first": first, "second": second}
        rows.append({**row, "ratio": ratio.mean, "low": ratio.low, "high": ratio.high, "p": p})
    found = np.array([row["p"] for row in rows])
    order = found.argsort()  # nan is last
    left = np.isfinite(found).sum() - np.arange(len(found))
    for index, value in zip(order, np.maximum.accumulate(left * found[order]), strict=True):
        rows[index]["p, Holm"] = min(1.0, value)
    return rows


def _tables(
    names: Mapping[str, str],
    settings: Sequence[Mapping[str, Any]],
    tests: Sequence[Mapping[str, Any]],
) -> list[Part]:
    """The settings, by their names, and the first tests as tables of text."""
    parts: list[Part] = []
    if settings:
        head = ["setting", "seeds", f"error at k = {max(row['k'] for row in settings)}", "90 %"]
        rows = [
            [name, str(row["seeds"]), *_cells(row, "last"), *_cells(row, "mean_over_k")]
            for name, row in zip(names.values(), settings, strict=True)
        ]
        table = Table([*head, "mean over k", "90 %"], rows)
        notes = sorted({row["note"] for row in settings if row["note"]})
        parts += [table, "90 % intervals over seeds and prompts", *notes]
    if tests:
        rows = [
            [
                names[row["first"]],
                names[row["second"]],
                *_cells(row, "ratio"),
                f"{row['p, Holm']:.2g}",
            ]
            for row in tests[:_MOST_SHOWN]
        ]
        more = len(tests) - _MOST_SHOWN
        rest = f"; {more} more in tests.csv" if more > 0 else ""
        table = Table(["error of", "over that of", "ratio", "90 %", "p"], rows)
        parts += ["", table, f"p: two-sided, by Holm for all{rest}"]
    return parts


def _cells(row: Mapping[str, Any], name: str) -> list[str]:
    """A number of a row and its interval."""
    low, high = (row.get(f"{name}_{end}", row.get(end)) for end in ("low", "high"))
    return [f"{row[name]:.3g}", f"{low:.3g} to {high:.3g}"]


def grid_panels(grid: Grid, runs: Sequence[Measured]) -> list[Panel]:
    """The panels of the finished runs. The varied setting with most values, if they are numbers, is
    an x axis, another one has a curve for each of its values, and each combination of the others a
    panel of its own; by examples, the first one has the curves. Errors are those after b loops, as
    in the tables."""
    finished = [
        (grid.settings[run.label], replace(run, arrays={**run.arrays, "model": at_b}))
        for run in runs
        if (at_b := run.arrays.get("model_at_b")) is not None
    ]
    keys = [key for key in grid.varied if key != "seed"]
    values = {key: list(dict.fromkeys(setting[key] for setting, _ in finished)) for key in keys}
    keys.sort(key=lambda key: -len(values[key]))
    x = next((key for key in keys if len(values[key]) > 1 and _numbers(values[key])), "")
    first, found = x or next(iter(keys), ""), list[Panel]()
    if x:
        second = next((key for key in keys if key != x), "")
        found = _panels(PanelSpec("by_value", x=x), second, finished)
    return [*found, *_panels(PanelSpec("by_examples"), first, finished)]


def _numbers(values: Sequence[str]) -> list[float]:
    with suppress(ValueError):
        return [float(value) for value in values]
    return []


def _panels(
    spec: PanelSpec, key: str, runs: Sequence[tuple[Mapping[str, str], Measured]]
) -> list[Panel]:
    """The panels of each combination of the values of all other settings, with a curve for each
    value of the setting `key`, if there is one."""
    parts: dict[str, list[Measured]] = {}
    for setting, run in runs:
        label = in_words(key, setting[key]) if key else run.config.model.family
        rest = [in_words(k, value) for k, value in setting.items() if k not in (key, spec.x)]
        parts.setdefault(", ".join(rest), []).append(replace(run, label=label))
    values = dict.fromkeys(setting[key] for setting, _ in runs) if key else ()
    standing = dict(zip((in_words(key, v) for v in values), _numbers([*values]), strict=False))
    found = []
    for part, members in parts.items():
        for panel in panels([spec], members):
            if part:
                name, title = f"{panel.name}-{file_name(part)}", f"{panel.title}, {part}"
                panel = replace(panel, name=name, title=title)
            numbered = [replace(each, number=standing.get(each.label)) for each in panel.curves]
            found.append(replace(panel, curves=numbered))
    return found[:_MOST_PANELS]
