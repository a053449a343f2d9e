"""A grid and what it found: the effect of each varied setting over the others, and the errors of
each combination.

result = summarise(grid, runs, failures, panels); result["effects"]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, starmap
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
from looplab.evaluation.groups import grouped
from looplab.evaluation.measured import Measured
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

    members: tuple[Member, ...]
    varied: tuple[str, ...]
    shared: tuple[str, ...]
    settings: tuple[Mapping[str, str], ...]
    command: str
    figures: FigureSettings

    @classmethod
    def of(cls, commands: Sequence[Command]) -> Grid:
        """The grid of commands that train."""
        words = [dict(word.split("=", 1) for word in command.words) for command in commands]
        keys = list(dict.fromkeys(key for each in words for key in each))
        varied = tuple(key for key in keys if len({each.get(key) for each in words}) > 1)
        members, settings = [], []
        for command, each in zip(commands, words, strict=True):
            own = {key: each.get(key, "") for key in varied if key != "seed"}
            label = ", ".join(starmap(in_words, own.items())) or command.config.model.family
            figures = replace(command.config.figures, labels=())
            config = replace(command.config, figures=figures)
            members.append(Member(label, command.words, config))
            settings.append(own)
        shared = tuple(f"{key}={words[0][key]}" for key in keys if key not in varied)
        values = {key: dict.fromkeys(each.get(key, "") for each in words) for key in varied}
        swept = [f"{key}={','.join(each)}" for key, each in values.items()]
        command_line = run_py("-m", *shared, *swept)
        figures = commands[0].config.figures
        return cls(tuple(members), varied, shared, tuple(settings), command_line, figures)

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
        own, its = self.config.evaluation, other.config.evaluation
        same_draws = (own.prompts, own.seed) == (its.prompts, its.seed)
        # Training on a set of prompts or functions moves no prompt of the evaluation.
        tasks = [
            replace(cell.config.task, distinct_prompts=0, distinct_functions=0)
            for cell in (self, other)
        ]
        return same_draws and tasks[0] == tasks[1]


def summarise(
    grid: Grid, runs: Sequence[Measured], failures: Mapping[str, str], panels: Sequence[Panel]
) -> GridResult:
    """Write the result of a grid and return it. `runs` are its members, measured; `failures` are
    the reasons why runs failed, by the path of their folder. Beside what an experiment's has, its
    result.json has the settings `varied` and `shared`, and the rows of effects.csv, settings.csv
    and tests.csv."""
    folder = grid.folder
    experiment = Experiment(folder.name, "", grid.title, "a grid of your own")
    result = result_of(experiment, grid.members, runs, failures, shipped=False) | {
        "scale": grid.members[0].config.scale,
        "command": grid.command,
        "panels": panels,
        "verdicts": [],
        "varied": grid.compared,
        "shared": [*grid.shared],
    }
    cells = cells_of(grid, runs)
    effects = effect_rows(cells, grid.compared)
    settings = setting_rows(cells)
    folder.mkdir(parents=True, exist_ok=True)
    tables = {"effects": effects, "settings": settings, "tests": paired_tests(cells)}
    for name, rows in tables.items():
        result[name] = [
            {key: finite(each) if isinstance(each, float) else each for key, each in row.items()}
            for row in rows
        ]
        csv = DataFrame(rows).to_csv(index=False, float_format="%.6g")
        write_bytes(folder / f"{name}.csv", csv.encode())
    states = Counter(each["state"] for each in result["members"])
    counts = [f"{states.pop('finished', 0)} done", f"{states.pop('failed', 0)} failed"]
    parts: list[Part] = [
        " ".join(grid.shared),
        ", ".join([*counts, *(f"{number} {state}" for state, number in states.items())]),
        *_effects_table(effects),
        *_settings_table([cell.label for cell in cells], settings),
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
    plain = [panel.plain() for panel in panels]
    return GridResult({**result, "panels": plain, "path": str(folder)}, parts)


def cells_of(grid: Grid, runs: Sequence[Measured]) -> list[Cell]:
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
    found = list[_Ratio]()
    for key in varied:
        others = [name for name in varied if name != key]
        for against, value in _pairs([cell.settings[key] for cell in cells]):
            both = _pairs_of_cells(cells, key, value, against)
            if not both:
                continue
            above, below = zip(*both, strict=True)
            seeds = [len(cell.seeds) for cell in (*above, *below)]
            found.append(_ratio(above, below))
            rows.append(
                {
                    "setting": key,
                    "value": value,
                    "against": against,
                    "over": _over(others, len(both)),
                    "seeds": min(seeds),
                    "most_seeds": max(seeds),
                    "k": above[0].errors.shape[2] - 1,
                }
            )
    adjusted = by_holm([ratio.p for ratio in found])
    for row, ratio, p in zip(rows, found, adjusted, strict=True):
        estimate = ratio.estimate
        is_settled = p < 1 - LEVEL and not estimate.low <= 1 <= estimate.high
        # Holm multiplies the least p by the number of effects, and no other by more.
        level = 1 - (1 - LEVEL) / len(found)
        notes = [estimate.note, "" if is_settled else seeds_note(1.0, estimate, level)]
        row |= ratio.row() | {"p, Holm": p, "note": "; ".join(filter(None, notes))}
    return rows


def _pairs(values: Sequence[str]) -> list[tuple[str, str]]:
    """Each two of the values, or of more than three the first with each other one."""
    different = [*dict.fromkeys(values)]
    if len(different) <= _MOST_PAIRED:
        return [*combinations(different, 2)]
    return [(different[0], value) for value in different[1:]]


def _pairs_of_cells(
    cells: Sequence[Cell], key: str, value: str, against: str
) -> list[tuple[Cell, Cell]]:
    """The cells of both values of a setting that differ in nothing else and were measured on the
    same prompts."""
    return [
        (first, second)
        for first in cells
        for second in cells
        if first.settings == {**second.settings, key: value}
        and second.settings[key] == against
        and first.on_the_prompts_of(second)
    ]


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
        row: Row = {**cell.settings, "seeds": len(cell.seeds), "k": cell.errors.shape[2] - 1}
        for name, part in {"last": cell.last, "mean_over_k": cell.errors.mean(2)}.items():
            estimate = hierarchical_bootstrap([part], itemgetter(0), log=True)
            row |= {name: estimate.mean, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
        rows.append({**row, "note": estimate.note})
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
        alike: dict[object, list[Floats]] = {}
        for cell in cells:
            alike.setdefault((cell.seeds, cell.last.shape), []).append(cell.last)
        groups += [np.stack(each, axis=-1) for each in alike.values()]  # [seeds, prompts, cells]
        signs += [sign] * len(alike)

    def log_ratio(means: Sequence[Floats]) -> Floats:
        sums = [sign * np.log(mean).sum(-1) for sign, mean in zip(signs, means, strict=True)]
        return np.sum(sums, axis=0) / len(above)

    estimate = hierarchical_bootstrap(groups, lambda means: np.exp(log_ratio(means)), log=True)
    return _Ratio(estimate, hierarchical_test(groups, log_ratio))


def by_holm(values: Sequence[float]) -> list[float]:
    """The p-values for all of them together (Holm, 1979); nan stays what it is."""
    found = np.array(values)
    order = found.argsort()  # nan is last
    left = np.isfinite(found).sum() - np.arange(len(found))
    adjusted = np.empty_like(found)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(left * found[order]))
    return adjusted.tolist()


def _effects_table(effects: Sequence[Row]) -> list[Part]:
    """The effects as a table of text."""
    if not effects:
        return []
    head = ["error of", "over that of", "over", "seeds", "ratio", "90 %", "p", "note"]
    rows = [
        [
            in_words(row["setting"], row["value"]),
            in_words(row["setting"], row["against"]),
            row["over"],
            "–".join(map(str, dict.fromkeys((row["seeds"], row["most_seeds"])))),
            *_cells(row, "ratio"),
            f"{row['p, Holm']:.2g}",
            row["note"],
        ]
        for row in effects
    ]
    said = "ratio: of errors at the last k, the geometric mean over what it is over; p: by Holm"
    return [Table(head, rows, spare=("over",)), said, ""]


def _settings_table(names: Sequence[str], settings: Sequence[Row]) -> list[Part]:
    """The settings, by their names, as a table of text."""
    if not settings:
        return []
    head = ["setting", "seeds", f"error at k = {max(row['k'] for row in settings)}", "90 %"]
    rows = [
        [name, str(row["seeds"]), *_cells(row, "last"), *_cells(row, "mean_over_k")]
        for name, row in zip(names, settings, strict=True)
    ]
    notes = sorted({row["note"] for row in settings if row["note"]})
    table = Table([*head, "mean over k", "90 %"], rows)
    return [table, "90 % intervals over seeds and prompts", *notes]


def _cells(row: Row, name: str) -> list[str]:
    """A number of a row and its interval."""
    low, high = (row.get(f"{name}_{end}", row.get(end)) for end in ("low", "high"))
    return [f"{row[name]:.3g}", f"{low:.3g} to {high:.3g}"]
