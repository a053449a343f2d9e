"""A grid and what it found: the effect of each varied setting over the others, and the errors of
each combination.

result = summarise(grid, runs, failures, panels); result["effects"]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product, starmap
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pandas import DataFrame

from looplab.conf.actions import Command
from looplab.conf.checksum import key_of
from looplab.conf.in_words import in_words, name_in_words
from looplab.conf.schema import Config, FigureSettings
from looplab.conf.words import run_py
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.evaluated_run import EvaluatedRun
from looplab.evaluation.groups import grouped
from looplab.evaluation.statistics import (
    LEVEL,
    Estimate,
    finite,
    hierarchical_bootstrap,
    hierarchical_test,
    seeds_note,
)
from looplab.show.panel import Panel
from looplab.show.report import Result
from looplab.show.tables import Part, Table, document
from looplab.training.run_folder.files import write_bytes
from looplab.training.run_folder.run import run_folder

from .definition import Experiment, Member, described
from .engine import remark_lines, result_of, show_result

_MOST_TESTS = 300
_MOST_PAIRED = 3  # values of a setting, each two of which are compared; of more each with the first
Row = dict[str, Any]  # of a table of csv


@dataclass(frozen=True)
class Grid:
    """Members of one command that differ in the settings `varied`; `shared` are the other words.
    `settings` has the values of each member's varied settings, as typed, but its seed; its label
    says them in words. `figures` is for the pictures of the grid; those of its members have other
    curves to be named.
    """

    members: Sequence[Member]
    varied: Sequence[str]
    shared: Sequence[str]
    settings: Sequence[Mapping[str, str]]
    command: str
    figures: FigureSettings

    @classmethod
    def of(cls, commands: Sequence[Command]) -> Grid:
        """The grid of commands that train."""
        words: dict[str, list[str]] = {}  # by key the value in each command, "" for none
        for index, command in enumerate(commands):
            for word in command.words:
                key, value = word.split("=", 1)
                words.setdefault(key, [""] * len(commands))[index] = value
        varied = list[str]()
        shared = list[str]()
        swept = list[str]()
        for key, values in words.items():
            distinct = dict.fromkeys(values)
            if len(distinct) == 1:
                shared.append(f"{key}={values[0]}")
            else:
                varied.append(key)
                swept.append(f"{key}={','.join(distinct)}")
        members = []
        settings = []
        for index, command in enumerate(commands):
            typed = {key: words[key][index] for key in varied if key != "seed"}
            label = ", ".join(starmap(in_words, typed.items())) or command.config.model.family
            figures = replace(command.config.figures, labels=())
            config = replace(command.config, figures=figures)
            members.append(Member(label, command.words, config))
            settings.append(typed)
        command_line = run_py("-m", *shared, *swept)
        figures = commands[0].config.figures
        return cls(members, varied, shared, settings, command_line, figures)

    @property
    def compared(self) -> list[str]:
        """The varied settings that have an effect of their own: all but the seed."""
        return [key for key in self.varied if key != "seed"]

    @property
    def title(self) -> str:
        """What it is over."""
        return f"a grid over {', '.join(map(name_in_words, self.varied)) or 'one run'}"

    @property
    def folder(self) -> Path:
        """Its folder, grid-<name>-<hash of runs and evaluations>, beside those of its runs: the
        same for the same runs in another order."""
        configs = [member.config for member in self.members]
        asked = [[run_folder(config).path.name, config.evaluation.plain()] for config in configs]
        key = key_of(sorted(asked, key=str), 8)
        name = configs[0].name
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


@dataclass(frozen=True)
class Cell:
    """The seeds of one combination of the varied settings: the errors after b loops, [seeds,
    prompts, k], and the configuration of the first."""

    label: str
    settings: Mapping[str, str]
    seeds: tuple[int, ...]
    errors: Floats
    config: Config

    @property
    def last(self) -> Floats:
        """The errors at the last k, [seeds, prompts]."""
        return self.errors[:, :, -1]

    def on_the_prompts_of(self, other: Cell) -> bool:
        """Both were measured on the same prompts."""
        drawn = []
        for cell in (self, other):
            evaluation = cell.config.evaluation
            # Training on a set of prompts or functions moves no prompt of the evaluation.
            task = replace(cell.config.task, distinct_prompts=0, distinct_functions=0)
            drawn.append((task, evaluation.prompts, evaluation.seed))
        return drawn[0] == drawn[1]


def summarise(
    grid: Grid, runs: Sequence[EvaluatedRun], failures: Mapping[str, str], panels: Sequence[Panel]
) -> GridResult:
    """Write the result of a grid and return it. `runs` are its members, measured; `failures` are
    the reasons why runs failed, by the path of their folder. Beside what an experiment's has, its
    result.json has the settings `varied` and `shared`, and the rows of effects.csv, settings.csv
    and tests.csv."""
    folder = grid.folder
    experiment = Experiment(folder.name, "", grid.title, "a grid of your own")
    result = result_of(experiment, grid.members, runs, failures, shipped=False)
    result["scale"] = grid.members[0].config.scale
    result["command"] = grid.command
    result["panels"] = panels
    result["verdicts"] = []
    result["varied"] = grid.compared
    result["shared"] = list(grid.shared)
    cells = cells_of(grid, runs)
    effects = effect_rows(cells, grid.compared)
    settings = setting_rows(cells)
    folder.mkdir(parents=True, exist_ok=True)
    tables = {"effects": effects, "settings": settings, "tests": paired_tests(cells)}
    for name, rows in tables.items():
        result[name] = [_plain_row(row) for row in rows]
        csv = DataFrame(rows).to_csv(index=False, float_format="%.6g")
        write_bytes(folder / f"{name}.csv", csv.encode())
    parts: list[Part] = [" ".join(grid.shared), _count_of_states(result["members"])]
    parts += _effects_table(effects)
    parts += _settings_table([cell.label for cell in cells], settings)
    parts += remark_lines(grid.members, result)
    for name, member in zip(described(grid.members), result["members"], strict=True):
        if member["state"] == "failed":
            parts.append(f"failed: {name}: {member['remarks'][0]}")
    write_bytes(folder / "summary.md", f"{document(parts, 'markdown')}\n".encode())
    write_bytes(folder / "summary.tex", f"{document(parts, 'latex')}\n".encode())
    show_result(result, folder, grid.figures)
    result["panels"] = [panel.plain() for panel in panels]
    result["path"] = str(folder)
    return GridResult(result, parts)


def _plain_row(row: Row) -> Row:
    """A row as JSON has it: None where a number is not finite."""
    return {key: finite(value) if isinstance(value, float) else value for key, value in row.items()}


def _count_of_states(members: Sequence[Mapping[str, Any]]) -> str:
    """How many of the runs are done, how many failed, and how many are in other states."""
    states = Counter(member["state"] for member in members)
    counts = [f"{states.pop('finished', 0)} done", f"{states.pop('failed', 0)} failed"]
    counts += [f"{number} {state}" for state, number in states.items()]
    return ", ".join(counts)


def cells_of(grid: Grid, runs: Sequence[EvaluatedRun]) -> list[Cell]:
    """The cells of the finished runs; `runs` are measured members, in their order."""
    settings = dict(zip(runs, grid.settings, strict=True))
    cells = []
    for group in grouped((run for run in runs if run.arrays), varied=grid.compared):
        first = group.runs[0]
        seeds = tuple(run.config.seed for run in group.runs)
        cells.append(Cell(first.label, settings[first], seeds, group.errors(), group.config))
    return cells


def effect_rows(cells: Sequence[Cell], varied: Sequence[str]) -> list[Row]:
    """A row for each two values of a varied setting, or of more than three for each and the first.

    It has the ratio of their errors at the last k over all combinations of the other settings that
    both were measured in. Beside it are its 90 % interval, its p-value and that by Holm for all
    effects. Its note says how many seeds would settle it.
    """
    rows = list[Row]()
    ratios = list[_Ratio]()
    for key in varied:
        others = [name for name in varied if name != key]
        for against, value in _pairs([cell.settings[key] for cell in cells]):
            both = _pairs_of_cells(cells, key, value, against)
            if not both:
                continue
            above = [first for first, _ in both]
            below = [second for _, second in both]
            seeds = [len(cell.seeds) for cell in above + below]
            ratios.append(_ratio(above, below))
            row: Row = {"setting": key, "value": value, "against": against}
            row["over"] = _over(others, len(both))
            row |= {"seeds": min(seeds), "most_seeds": max(seeds)}
            row["k"] = above[0].errors.shape[2] - 1
            rows.append(row)
    adjusted = by_holm([ratio.p for ratio in ratios])
    for row, ratio, p in zip(rows, ratios, adjusted, strict=True):
        estimate = ratio.estimate
        is_settled = p < 1 - LEVEL and not estimate.low <= 1 <= estimate.high
        # Holm multiplies the least p by the number of effects, and no other by more.
        level = 1 - (1 - LEVEL) / len(ratios)
        notes = [estimate.note, "" if is_settled else seeds_note(1.0, estimate, level)]
        row |= ratio.row() | {"p, Holm": p, "note": "; ".join(filter(None, notes))}
    return rows


def _pairs(values: Sequence[str]) -> list[tuple[str, str]]:
    """Each two of the values, or of more than three the first with each other one."""
    distinct = list(dict.fromkeys(values))
    if len(distinct) <= _MOST_PAIRED:
        return list(combinations(distinct, 2))
    return [(distinct[0], value) for value in distinct[1:]]


def _pairs_of_cells(
    cells: Sequence[Cell], key: str, value: str, against: str
) -> list[tuple[Cell, Cell]]:
    """The cells of both values of a setting that differ in nothing else and were measured on the
    same prompts."""
    pairs = []
    for first, second in product(cells, repeat=2):
        same_others = first.settings == {**second.settings, key: value}
        if same_others and second.settings[key] == against and first.on_the_prompts_of(second):
            pairs.append((first, second))
    return pairs


def _over(others: Sequence[str], count: int) -> str:
    """What an effect is a mean over: '3 values of b', '6 combinations of b and T'."""
    if not others:
        return ""
    kind = "value" if len(others) == 1 else "combination"
    return f"{count} {kind}{'s' * (count > 1)} of {' and '.join(map(name_in_words, others))}"


def setting_rows(cells: Sequence[Cell]) -> list[Row]:
    """A row for each cell: its settings and seeds, and its error at the last k and mean over k,
    each with a 90 % interval over seeds and prompts."""
    rows = []
    for cell in cells:
        row: Row = dict(cell.settings)
        row["seeds"] = len(cell.seeds)
        row["k"] = cell.errors.shape[2] - 1
        for name, errors in (("last", cell.last), ("mean_over_k", cell.errors.mean(2))):
            # Errors are positive: their logarithm is nearer to a normal variable.
            estimate = hierarchical_bootstrap([errors], itemgetter(0), log=True)
            row[name] = estimate.mean
            row[f"{name}_low"] = estimate.low
            row[f"{name}_high"] = estimate.high
        row["note"] = estimate.note
        rows.append(row)
    return rows


def paired_tests(cells: Sequence[Cell]) -> list[Row]:
    """A row for each two cells that differ in one value and were measured on the same prompts, at
    most 300: the ratio of the first's error at the last k to the second's with its 90 % interval,
    its p-value, and that by Holm for all."""
    rows = list[Row]()
    for first, second in combinations(cells, 2):
        keys = [key for key, value in first.settings.items() if second.settings[key] != value]
        if len(keys) != 1 or not first.on_the_prompts_of(second) or len(rows) == _MOST_TESTS:
            continue
        row: Row = {"differ in": keys[0], "first": first.label, "second": second.label}
        rows.append(row | _ratio([first], [second]).row())
    for row, p in zip(rows, by_holm([row["p"] for row in rows]), strict=True):
        row["p, Holm"] = p
    return rows


class _Ratio(NamedTuple):
    """A ratio of errors, and the p-value of its being 1."""

    estimate: Estimate
    p: float

    def row(self) -> Row:
        """Its numbers."""
        mean, low, high = self.estimate[:3]
        return {"ratio": mean, "low": low, "high": high, "p": self.p}


def _ratio(above: Sequence[Cell], below: Sequence[Cell]) -> _Ratio:
    """The geometric mean of the ratios of errors at the last k of each two cells.

    The unit is the seed: a seed is drawn, or left out, in all cells of one side together. Cells are
    no independent repetitions, as those of one seed share their beginning and their data.
    """
    groups = list[Floats]()
    signs = list[int]()
    for sign, cells in ((1, above), (-1, below)):
        same_seeds: dict[object, list[Floats]] = {}
        for cell in cells:
            # Cells of the same seeds make one group, in which a seed is drawn for all of them.
            same_seeds.setdefault((cell.seeds, cell.last.shape), []).append(cell.last)
        for errors in same_seeds.values():
            groups.append(np.stack(errors, axis=-1))  # [seeds, prompts, cells]
            signs.append(sign)

    def log_ratio(means: Sequence[Floats]) -> Floats:
        # The sum of logarithms above less that below, over the number of pairs.
        sums = [sign * np.log(mean).sum(-1) for sign, mean in zip(signs, means, strict=True)]
        return np.sum(sums, axis=0) / len(above)

    estimate = hierarchical_bootstrap(groups, lambda means: np.exp(log_ratio(means)), log=True)
    return _Ratio(estimate, hierarchical_test(groups, log_ratio))


def by_holm(values: Sequence[float]) -> list[float]:
    """The p-values for all of them together (Holm, 1979); nan stays what it is."""
    p = np.array(values)
    order = p.argsort()  # nan is last
    # The least is multiplied by the number of tests, the next by one less, and none falls below
    # the one before it.
    tests_left = np.isfinite(p).sum() - np.arange(len(p))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(tests_left * p[order]))
    return adjusted.tolist()


def _effects_table(effects: Sequence[Row]) -> list[Part]:
    """The effects as a table of text."""
    if not effects:
        return []
    head = ["error of", "over that of", "over", "seeds", "ratio", "90 %", "p", "note"]
    rows = []
    for row in effects:
        setting = row["setting"]
        seeds = str(row["seeds"])
        if row["most_seeds"] > row["seeds"]:
            seeds += f"–{row['most_seeds']}"
        cells = [in_words(setting, row["value"]), in_words(setting, row["against"])]
        cells += [row["over"], seeds]
        cells += _cells(row["ratio"], row["low"], row["high"])
        cells += [f"{row['p, Holm']:.2g}", row["note"]]
        rows.append(cells)
    legend = "ratio: of errors at the last k, the geometric mean over what it is over; p: by Holm"
    return [Table(head, rows, spare=("over",)), legend, ""]


def _settings_table(names: Sequence[str], settings: Sequence[Row]) -> list[Part]:
    """The settings, by their names, as a table of text."""
    if not settings:
        return []
    last_k = max(row["k"] for row in settings)
    head = ["setting", "seeds", f"error at k = {last_k}", "90 %", "mean over k", "90 %"]
    rows = []
    for name, row in zip(names, settings, strict=True):
        cells = [name, str(row["seeds"])]
        for error in ("last", "mean_over_k"):
            cells += _cells(row[error], row[f"{error}_low"], row[f"{error}_high"])
        rows.append(cells)
    parts: list[Part] = [Table(head, rows), "90 % intervals over seeds and prompts"]
    parts += sorted({row["note"] for row in settings if row["note"]})
    return parts


def _cells(mean: float, low: float, high: float) -> list[str]:
    """A number and its interval."""
    return [f"{mean:.3g}", f"{low:.3g} to {high:.3g}"]
