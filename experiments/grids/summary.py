"""The result of a grid in its folder: members.csv, settings.csv, tests.csv, summary.md,
summary.tex, result.json and figures/."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from looplab.conf.checksum import key_of
from looplab.conf.schema import TableFormat
from looplab.conf.words import run_py
from looplab.evaluation.drawing import save_panels
from looplab.evaluation.kept import shown
from looplab.evaluation.panel import Panel, file_name
from looplab.evaluation.remarks import shared
from looplab.evaluation.tables import Part, Table, document
from looplab.training.run_folder.files import write_bytes
from looplab.training.run_folder.run import RunFolder

from ..claims import Estimate, Measured
from ..definition import PanelSpec
from ..engine import ExperimentResult, MemberResult, State
from ..standard_panels import panels
from .grid import SEED, Grid
from .results import (
    PairedTest,
    Result,
    Setting,
    Summary,
    member_rows,
    paired_test_rows,
    paired_tests,
    results_of,
    setting_name,
    setting_rows,
    summaries,
)

KIND = "experiment"  # as the pictures and the report read it
_SUFFIXES: dict[TableFormat, str] = {
    "text": "txt",
    "markdown": "md",
    "latex": "tex",
    "csv": "table.csv",
}
_MOST_TESTS = 12  # shown; tests.csv has all
_STATES: dict[str, State] = {"finished": "finished", "failed": "failed", "new": "missing"}
_MOST = 24  # panels of one kind; the tables have all numbers
_WIDE = 20  # the largest value over the smallest from which on an axis is logarithmic


def summarise(grid: Grid, failures: Mapping[str, str]) -> str:
    """Write the results of a grid and return the text for the user. `failures` are the reasons why
    runs failed, by the path of their folder. What another process has just written is read."""
    results, first = results_of(grid), grid.members[0].config
    result = _result(grid, results, failures)
    content = {
        **result,
        "key": _key(results, failures),
        "figures": first.figures.plain(),
    }
    panels = [Panel.read(panel) for panel in result["panels"]]

    def make() -> list[Path]:
        return _write(grid, results, failures, panels)

    shown(grid.folder / "result.json", KIND, content, make)
    text = _text_file(grid, first.tables.format).read_text(encoding="utf-8")
    files = "members.csv, settings.csv, tests.csv, summary.md, summary.tex, figures/"
    return f"\n{text}\n{grid.folder}: {files}"


def _write(
    grid: Grid,
    results: Sequence[Result],
    failures: Mapping[str, str],
    panels: Sequence[Panel],
) -> list[Path]:
    """Write all tables and pictures; returns the files."""
    found, tests = summaries(results), paired_tests(results)
    keys = [key for key in grid.varied if key != SEED]
    tables = {
        "members": member_rows(results, grid.varied),
        "settings": setting_rows(found, keys),
        "tests": paired_test_rows(tests),
    }
    files = []
    for name, table in tables.items():
        files.append(grid.folder / f"{name}.csv")
        write_bytes(files[-1], f"{document([table], 'csv')}\n".encode())
    parts = _parts(grid, results, failures, found, tests)
    for form in _SUFFIXES:
        files.append(_text_file(grid, form))
        write_bytes(files[-1], f"{document(parts, form)}\n".encode())
    figures = grid.members[0].config.figures
    title = f"a grid over {', '.join(grid.varied)}"
    return [*files, *save_panels(grid.folder / "figures", panels, figures, title)]


def _text_file(grid: Grid, form: TableFormat) -> Path:
    return grid.folder / f"summary.{_SUFFIXES[form]}"


def _key(results: Sequence[Result], failures: Mapping[str, str]) -> str:
    """What the result is made from: the runs' evaluations, states and remarks."""
    parts = [
        [str(each.member.path), each.evaluation, each.state, list(each.measured.remarks)]
        for each in results
    ]
    return key_of([parts, dict(failures)])


def _parts(
    grid: Grid,
    results: Sequence[Result],
    failures: Mapping[str, str],
    found: Sequence[Summary],
    tests: Sequence[PairedTest],
) -> list[Part]:
    """Title, table of settings, tests and failures."""
    parts: list[Part] = [" ".join(grid.shared), _counts(results, failures)]
    if found:
        parts += [_settings_table(results, found), "90 % intervals over seeds and prompts"]
        parts += sorted({each.last.note for each in found if each.last.note})
    if tests:
        rest = f"; {len(tests) - _MOST_TESTS} more in tests.csv" * (len(tests) > _MOST_TESTS)
        parts += ["", _tests_table(tests[:_MOST_TESTS]), f"p: two-sided, by Holm for all{rest}"]
    parts += shared(
        {result.member.label or "the run": result.measured.remarks for result in results}
    )
    for path, reason in failures.items():
        labels = [each.label for each in grid.members if str(each.path) == path]
        parts.append(f"failed: {labels[0] if labels else path}: {reason}")
    return parts


def _counts(results: Sequence[Result], failures: Mapping[str, str]) -> str:
    """'8 done, 1 failed'."""
    done = sum(each.errors is not None for each in results)
    others = Counter(
        each.state
        for each in results
        if each.errors is None and str(each.member.path) not in failures
    )
    failed = sum(str(each.member.path) in failures for each in results)
    text = f"{done} done, {failed} failed"
    return ", ".join([text, *(f"{number} {state}" for state, number in others.items())])


def _settings_table(results: Sequence[Result], found: Sequence[Summary]) -> Table:
    last = max(each.errors.shape[1] for each in results if each.errors is not None) - 1
    head = ["setting", "seeds", f"error at k = {last}", "90 %", "mean over k", "90 %"]
    rows = [
        [
            setting_name(each.setting), str(each.seeds),
            f"{each.last.mean:.3g}", _span(each.last), f"{each.mean.mean:.3g}", _span(each.mean),
        ]
        for each in found
    ]  # fmt: skip
    return Table(head, rows)


def _tests_table(tests: Sequence[PairedTest]) -> Table:
    head = ["error of", "over that of", "ratio", "90 %", "p"]
    rows = [
        [
            setting_name(test.first), setting_name(test.second),
            f"{test.ratio.mean:.3g}", _span(test.ratio), f"{test.p_holm:.2g}",
        ]
        for test in tests
    ]  # fmt: skip
    return Table(head, rows)


def _span(estimate: Estimate) -> str:
    return f"{estimate.low:.3g} to {estimate.high:.3g}"


def _result(grid: Grid, results: Sequence[Result], failures: Mapping[str, str]) -> ExperimentResult:
    """The grid as pictures and the report read it."""
    members = [_member(result, failures) for result in results]
    values = [dict(member.values) for member in grid.members]
    swept = [
        f"{key}={','.join(dict.fromkeys(each[key] for each in values))}" for key in grid.varied
    ]
    command = run_py("-m", *grid.shared, *swept)
    return {
        "experiment": grid.folder.name,
        "title": f"a grid over {', '.join(grid.varied) or 'one run'}",
        "source": "a grid of your own",
        "scale": grid.members[0].config.scale,
        "command": command,
        "members": members,
        "panels": [panel.plain() for panel in grid_panels(results, grid.varied)],
        "verdicts": [],
        "missing": [
            f"{each['label']}, seed {each['seed']}: {each['state']}, "
            f"{each['step']:,} of {each['steps']:,} steps"
            for each in members
            if each["state"] != "finished"
        ],
    }


def _member(result: Result, failures: Mapping[str, str]) -> MemberResult:
    config, path = result.member.config, str(result.member.path)
    state: State = _STATES.get(result.state, "unfinished")
    if result.errors is not None:
        state = "finished"
    remarks = list(result.measured.remarks)
    if path in failures:
        state, remarks = "failed", [failures[path]]
    elif state == "failed":
        remarks = [str(RunFolder(result.member.path).status().get("reason", "its training failed"))]
    return {
        "label": setting_name(result.member.setting),
        "run": path,
        "words": list(result.member.command.words),
        "seed": config.seed,
        "step": result.measured.step,
        "steps": config.training.steps,
        "state": state,
        "remarks": remarks,
    }


def grid_panels(results: Sequence[Result], varied: Sequence[str]) -> list[Panel]:
    """The panels of the finished runs. The varied setting with most values, if they are numbers, is
    an x axis, another one has a curve for each of its values, and each combination of the others a
    panel of its own; by examples, the first one has the curves."""
    finished = [result for result in results if result.errors is not None]
    keys = [key for key in varied if key != SEED]
    settings = [dict(result.member.values) for result in finished]
    values = {key: list(dict.fromkeys(each[key] for each in settings)) for key in keys}
    by_number = sorted(keys, key=lambda key: -len(values[key]))
    x = next((key for key in by_number if _are_numbers(values[key])), None)
    found: list[Panel] = []
    if x is not None:
        numbers = [float(value) for value in values[x]]
        log = min(numbers) > 0 and max(numbers) >= _WIDE * min(numbers)
        curve = next((key for key in by_number if key != x), None)
        spec = PanelSpec("by_value", x=x, log_x=log)
        found += _split(spec, finished, [key for key in keys if key not in (x, curve)], (x,))
    first = x or (by_number[0] if by_number else None)
    found += _split(PanelSpec("by_examples"), finished, [key for key in keys if key != first])
    return found


def _split(
    spec: PanelSpec,
    results: Sequence[Result],
    split: Sequence[str],
    without: Sequence[str] = (),
) -> list[Panel]:
    """The panels of each combination of the values of `split`; the curves are called by the other
    values, those of `without` left out."""
    parts: dict[Setting, list[Measured]] = {}
    for result in results:
        values = dict(result.member.setting)
        part = tuple((key, values[key]) for key in split)
        rest = [(key, value) for key, value in values.items() if key not in (*split, *without)]
        label = setting_name(tuple(rest)) if rest else result.measured.config.model.family
        parts.setdefault(part, []).append(replace(result.measured, label=label))
    found = []
    for part, runs in parts.items():
        for panel in panels([spec], runs):
            name = setting_name(part)
            found.append(
                replace(
                    panel,
                    name=f"{panel.name}-{file_name(name)}",
                    title=f"{panel.title}, {name}",
                )
                if part
                else panel
            )
    return found[:_MOST]


def _are_numbers(values: Sequence[str]) -> bool:
    try:
        return len([float(value) for value in values]) > 1
    except ValueError:
        return False
