"""A grid: many runs of one command, trained like those of an experiment, and a result of the same
form, with tables over their settings.

grid = Grid.of(commands(["task=linear", "seed=0,1"], multirun=True)); grid.folder
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from pandas import DataFrame

from looplab.conf.actions import Command
from looplab.conf.checksum import key_of
from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config
from looplab.conf.words import run_py
from looplab.evaluation.bootstrap import Floats, bootstrap
from looplab.evaluation.panel import Panel, file_name
from looplab.evaluation.remarks import shared
from looplab.evaluation.tables import Part, Table, document
from looplab.training.device import place
from looplab.training.jobs import processes_for
from looplab.training.run_folder.files import write_bytes
from looplab.training.run_folder.run import run_folder
from looplab.training.together import groups, obstacle

from ..claims import Measured
from ..definition import Member, PanelSpec
from ..engine import ExperimentResult, measured, member_result, show_result
from ..many_runs import Plan, Wanted, train_all
from ..one_command import check_evaluation_of
from ..standard_panels import panels
from ..statistics import hierarchical_bootstrap, hierarchical_test
from .command import GridSettings

Setting = tuple[tuple[str, str], ...]  # the varied settings of a member, but its seed, and values
_MOST_TESTS, _MOST_SHOWN = 300, 12
_MOST_PANELS = 24  # of one kind; the tables have all numbers
_WIDE = 20  # the largest value over the smallest from which on an axis is logarithmic


@dataclass(frozen=True)
class Grid:
    """Members of one command that differ in the settings `varied`; `shared` are the other words."""

    members: tuple[Member, ...]
    varied: tuple[str, ...]
    shared: tuple[str, ...]

    @classmethod
    def of(cls, commands: Sequence[Command]) -> Grid:
        """The grid of commands that train."""
        words = [dict(word.split("=", 1) for word in command.words) for command in commands]
        keys = list(dict.fromkeys(key for each in words for key in each))
        varied = tuple(key for key in keys if len({each.get(key) for each in words}) > 1)
        members = []
        for command, each in zip(commands, words, strict=True):
            values = [f"{key}={each.get(key, '')}" for key in varied if key != "seed"]
            members.append(Member(" ".join(values) or "all", command.words, command.config))
        rest = tuple(f"{key}={words[0][key]}" for key in keys if key not in varied)
        return cls(tuple(members), varied, rest)

    @property
    def folder(self) -> Path:
        """Its folder, grid-<name>-<hash of runs and evaluations>, beside those of its runs: the
        same for the same runs in another order."""
        configs = [member.config for member in self.members]
        parts = [[run_folder(each).path.name, asdict(each.evaluation)] for each in configs]
        key, name = key_of(sorted(parts, key=str), 8), configs[0].name
        return Path(configs[0].folder) / (f"grid-{name}-{key}" if name else f"grid-{key}")

    def values_of(self, member: Member) -> dict[str, str]:
        """A member's values of the varied settings."""
        given = dict(word.split("=", 1) for word in member.words)
        return {key: given.get(key, "") for key in self.varied}

    def setting_of(self, member: Member) -> Setting:
        """The same without the seed: members of one setting are repetitions."""
        return tuple(item for item in self.values_of(member).items() if item[0] != "seed")

    def wanted(self) -> list[Wanted]:
        """Its members, to be trained and evaluated."""
        found = []
        for member in self.members:
            values = " ".join(f"{key}={value}" for key, value in self.values_of(member).items())
            name = values or run_folder(member.config).path.name
            found.append(Wanted(name, member.config, (member.config.evaluation,)))
        return found


def run_grid(commands: Sequence[Command], settings: GridSettings) -> int:
    """Train and evaluate the runs of a grid, in this process and in any others that run the same
    command, then write and print the result; the exit code: 1 where one failed.

    Raises as `train_all`, ConfigError for a device that is not there, before anything is written,
    and RunError where Slurm refuses.
    """
    grid, first = Grid.of(commands), commands[0]
    configs = [command.config for command in commands]
    for config in {repr((each.task, each.evaluation)): each for each in configs}.values():
        check_evaluation_of(config)
    if settings.engine.name == "slurm":
        from .slurm import submit

        if said := submit(grid, settings.engine):
            print(said)
            return 0
    for asked in {(config.device, config.precision, config.backend) for config in configs}:
        place(*asked)
    devices, logs = _devices(settings.devices), grid.folder / "logs"
    print(_beginning(grid, settings, first), flush=True)
    os.environ.setdefault("WANDB_RUN_GROUP", grid.folder.name)  # wandb reads it
    tables = first.config.tables.format
    plan = Plan(logs, settings.jobs, devices, first.together, first.again, tables=tables)
    failures = train_all(grid.wanted(), plan)
    print(summarise(grid, failures), flush=True)
    return 1 if failures else 0


def _devices(numbers: Sequence[int]) -> tuple[str, ...]:
    """The CUDA devices as CUDA_VISIBLE_DEVICES names them. Raises ConfigError for one that is not
    there."""
    import torch

    count = torch.cuda.device_count()
    if numbers and max(numbers) >= count:
        have = f"{count} CUDA device{'s' * (count != 1)}"
        raise ConfigError("devices", f"names device {max(numbers)}, but this machine has {have}")
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    names = visible.split(",") if visible else [str(number) for number in range(count)]
    return tuple(names[number] for number in numbers)


def _beginning(grid: Grid, settings: GridSettings, first: Command) -> str:
    number = len(grid.members)
    at_once = processes_for(number, settings.jobs or len(settings.devices) or None, first.config)
    times = "one at a time" if at_once == 1 else f"{at_once} at a time"
    text = f"{number} runs, {times}; their result: {grid.folder}"
    if at_once > 1:
        text += f", their output: {grid.folder / 'logs'}"
    configs = [member.config for member in grid.members]
    if first.together and not groups(configs, only_if_faster=first.together == "auto"):
        why = obstacle(first.config) or "docs/guide.md says which can be"
        text += f"\nno members are trained together: {why}"
    return text


def summarise(grid: Grid, failures: Mapping[str, str]) -> str:
    """Write the result of a grid and return it as text. `failures` are the reasons why runs failed,
    by the path of their folder."""
    runs = [measured(member, failures, shipped=False) for member in grid.members]
    results = [
        member_result(member, run, failures, shipped=False)
        for member, run in zip(grid.members, runs, strict=True)
    ]
    errors = errors_by_setting(grid, runs)
    settings, tests = setting_rows(errors), paired_tests(errors, grid)
    tables = {"members": _member_rows(grid, runs), "settings": settings, "tests": tests}
    grid.folder.mkdir(parents=True, exist_ok=True)
    for name, rows in tables.items():
        csv = DataFrame(rows).to_csv(index=False, float_format="%.6g")
        write_bytes(grid.folder / f"{name}.csv", csv.encode())
    names = [f"{each['label']}, seed {each['seed']}" for each in results]
    states = Counter(result["state"] for result in results)
    counts = [f"{states.pop('finished', 0)} done", f"{states.pop('failed', 0)} failed"]
    parts: list[Part] = [
        " ".join(grid.shared),
        ", ".join([*counts, *(f"{number} {state}" for state, number in states.items())]),
        *_tables(settings, tests),
        *shared({name: run.remarks for name, run in zip(names, runs, strict=True)}),
        *(
            f"failed: {name}: {each['remarks'][0]}"
            for name, each in zip(names, results, strict=True)
            if each["state"] == "failed"
        ),
    ]
    write_bytes(grid.folder / "summary.md", f"{document(parts, 'markdown')}\n".encode())
    write_bytes(grid.folder / "summary.tex", f"{document(parts, 'latex')}\n".encode())
    config = grid.members[0].config
    values = [grid.values_of(member) for member in grid.members]
    swept = [
        f"{key}={','.join(dict.fromkeys(each[key] for each in values))}" for key in grid.varied
    ]
    result: ExperimentResult = {
        "experiment": grid.folder.name,
        "title": f"a grid over {', '.join(grid.varied) or 'one run'}",
        "source": "a grid of your own",
        "scale": config.scale,
        "command": run_py("-m", *grid.shared, *swept),
        "members": results,
        "panels": [panel.plain() for panel in grid_panels(grid, runs)],
        "verdicts": [],
        "missing": [
            f"{name}: {each['state']}, {each['step']:,} of {each['steps']:,} steps"
            for name, each in zip(names, results, strict=True)
            if each["state"] != "finished"
        ],
    }
    show_result(result, grid.folder, config.figures)
    files = "members.csv, settings.csv, tests.csv, summary.md, summary.tex, figures/"
    return f"\n{document(parts, config.tables.format)}\n{grid.folder}: {files}"


def errors_by_setting(grid: Grid, runs: Sequence[Measured]) -> dict[Setting, Floats]:
    """The errors of the finished runs of each setting at b loops, [seeds, prompts, k]."""
    found: dict[Setting, list[Floats]] = {}
    for member, run in zip(grid.members, runs, strict=True):
        if run.arrays:
            errors = np.asarray(run.arrays["model_at_b"], np.float64)
            found.setdefault(grid.setting_of(member), []).append(errors)
    return {
        setting: np.stack([each[:, : min(e.shape[1] for e in errors)] for each in errors])
        for setting, errors in found.items()
    }


def _member_rows(grid: Grid, runs: Sequence[Measured]) -> list[dict[str, Any]]:
    """A row for each run and k: its error with the 90 % interval over prompts."""
    rows = []
    for member, run in zip(grid.members, runs, strict=True):
        values = grid.values_of(member)
        row = {"run": run.path or run_folder(run.config).path, "step": run.step, **values}
        if not run.arrays:
            rows.append(row)
            continue
        interval = bootstrap(run.arrays["model_at_b"], resamples=1000, seed=2024)
        for k, (error, low, high) in enumerate(zip(*interval, strict=True)):
            errors = {"k": k, "error": error, "low": low, "high": high}
            rows.append({**row, **errors, "remarks": "; ".join(run.remarks)})
    return rows


def setting_rows(errors: Mapping[Setting, Floats]) -> list[dict[str, Any]]:
    """A row for each setting: its seeds, and its error at the last k and mean over k, each with a
    90 % interval over seeds and prompts."""
    rows = []
    for setting, values in errors.items():
        row: dict[str, Any] = {**dict(setting), "seeds": len(values), "k": values.shape[2] - 1}
        parts = {"last": values[:, :, -1:], "mean_over_k": values.mean(2, keepdims=True)}
        for name, part in parts.items():
            estimate = hierarchical_bootstrap([part], _first)
            row |= {name: estimate.mean, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
        rows.append({**row, "note": estimate.note})
    return rows


def paired_tests(errors: Mapping[Setting, Floats], grid: Grid) -> list[dict[str, Any]]:
    """A row for each two settings that differ in one value and were measured on the same prompts,
    at most 300: the ratio of the first's error at the last k to the second's with its 90 %
    interval, its p-value, and that by Holm for all."""
    prompts = {grid.setting_of(each): _prompts_of(each.config) for each in grid.members}
    rows: list[dict[str, Any]] = []
    for first, second in combinations(errors, 2):
        keys = [key for (key, one), (_, other) in zip(first, second, strict=True) if one != other]
        if len(keys) != 1 or prompts[first] != prompts[second] or len(rows) == _MOST_TESTS:
            continue
        parts = [errors[first][:, :, -1:], errors[second][:, :, -1:]]
        ratio = hierarchical_bootstrap(parts, _ratio, log=True)
        p = hierarchical_test(parts, _ratio, log=True)
        row: dict[str, Any] = {"differ in": keys[0], "first": _name(first), "second": _name(second)}
        rows.append({**row, "ratio": ratio.mean, "low": ratio.low, "high": ratio.high, "p": p})
    for row, adjusted in zip(rows, _holm([row["p"] for row in rows]), strict=True):
        row["p, Holm"] = adjusted
    return rows


def _prompts_of(config: Config) -> object:
    """What the prompts of an evaluation depend on."""
    return config.task, config.evaluation.prompts, config.evaluation.seed


def _name(setting: Setting) -> str:
    return " ".join(f"{key}={value}" for key, value in setting) or "all"


def _first(means: Sequence[Floats]) -> Floats:
    return means[0][..., 0]


def _ratio(means: Sequence[Floats]) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return means[0][..., 0] / means[1][..., 0]


def _holm(values: Sequence[float]) -> list[float]:
    """The p-values adjusted for their number (Holm 1979); nan stays nan."""
    order = sorted(range(len(values)), key=lambda i: (math.isnan(values[i]), values[i]))
    count = sum(not math.isnan(value) for value in values)
    highest, adjusted = 0.0, [math.nan] * len(values)
    for rank, index in enumerate(order[:count]):
        highest = max(highest, min(1.0, (count - rank) * values[index]))
        adjusted[index] = highest
    return adjusted


def _tables(
    settings: Sequence[Mapping[str, Any]], tests: Sequence[Mapping[str, Any]]
) -> list[Part]:
    """The settings and the first tests as tables of text."""
    parts: list[Part] = []
    if settings:
        own = ("seeds", "k", "note", "last", "mean_over_k")
        keys = [key for key in settings[0] if not key.startswith(own)]
        head = ["setting", "seeds", f"error at k = {max(row['k'] for row in settings)}", "90 %"]
        rows = [
            [
                _name(tuple((key, row[key]) for key in keys)), str(row["seeds"]),
                f"{row['last']:.3g}", f"{row['last_low']:.3g} to {row['last_high']:.3g}",
                f"{row['mean_over_k']:.3g}",
                f"{row['mean_over_k_low']:.3g} to {row['mean_over_k_high']:.3g}",
            ]
            for row in settings
        ]  # fmt: skip
        parts += [Table([*head, "mean over k", "90 %"], rows)]
        parts += ["90 % intervals over seeds and prompts"]
        parts += sorted({row["note"] for row in settings if row["note"]})
    if tests:
        rows = [
            [
                row["first"], row["second"], f"{row['ratio']:.3g}",
                f"{row['low']:.3g} to {row['high']:.3g}", f"{row['p, Holm']:.2g}",
            ]
            for row in tests[:_MOST_SHOWN]
        ]  # fmt: skip
        more = len(tests) - _MOST_SHOWN
        rest = f"; {more} more in tests.csv" if more > 0 else ""
        parts += ["", Table(["error of", "over that of", "ratio", "90 %", "p"], rows)]
        parts += [f"p: two-sided, by Holm for all{rest}"]
    return parts


def grid_panels(grid: Grid, runs: Sequence[Measured]) -> list[Panel]:
    """The panels of the finished runs. The varied setting with most values, if they are numbers, is
    an x axis, another one has a curve for each of its values, and each combination of the others a
    panel of its own; by examples, the first one has the curves."""
    finished = [
        (dict(grid.setting_of(member)), run)
        for member, run in zip(grid.members, runs, strict=True)
        if run.arrays
    ]
    keys = [key for key in grid.varied if key != "seed"]
    values = {key: list(dict.fromkeys(setting[key] for setting, _ in finished)) for key in keys}
    by_number = sorted(keys, key=lambda key: -len(values[key]))
    x = next((key for key in by_number if _are_numbers(values[key])), None)
    found: list[Panel] = []
    if x is not None:
        numbers = [float(value) for value in values[x]]
        log = min(numbers) > 0 and max(numbers) >= _WIDE * min(numbers)
        curve = next((key for key in by_number if key != x), None)
        spec = PanelSpec("by_value", x=x, log_x=log)
        found += _split(spec, finished, [key for key in keys if key not in (x, curve)])
    first = x or (by_number[0] if by_number else None)
    spec = PanelSpec("by_examples")
    return [*found, *_split(spec, finished, [key for key in keys if key != first])]


def _split(
    spec: PanelSpec, runs: Sequence[tuple[Mapping[str, str], Measured]], split: Sequence[str]
) -> list[Panel]:
    """The panels of each combination of the values of `split`; the curves are called by the other
    values but the x axis's."""
    parts: dict[str, list[Measured]] = {}
    for setting, run in runs:
        rest = [item for item in setting.items() if item[0] not in (*split, spec.x)]
        label = _name(tuple(rest)) if rest else run.config.model.family
        part = " ".join(f"{key}={setting[key]}" for key in split)
        parts.setdefault(part, []).append(replace(run, label=label))
    found = []
    for part, members in parts.items():
        for panel in panels([spec], members):
            if part:
                name, title = f"{panel.name}-{file_name(part)}", f"{panel.title}, {part}"
                panel = replace(panel, name=name, title=title)
            found.append(panel)
    return found[:_MOST_PANELS]


def _are_numbers(values: Sequence[str]) -> bool:
    try:
        return len([float(value) for value in values]) > 1
    except ValueError:
        return False
