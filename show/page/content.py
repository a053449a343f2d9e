"""What the page's template reads, beside the fields of a run's row and of a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from looplab.evaluation.plain import Content
from looplab.evaluation.runs_table import Row
from looplab.evaluation.verdict import Verdict
from looplab.show.panel import Panel

Records = Sequence[Content]  # objects of a result's file: trainings, rows of a grid's tables
Words = Sequence[str]


@dataclass(frozen=True)
class Name:
    """A name of a figure's legend, with the numbers of its curves."""

    label: str
    colour: str
    dash: str  # as SVG has it
    curves: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class ShownPanel:
    """A panel with its picture and, as a link that holds it, its table."""

    panel: Panel
    file: str  # of the table
    csv: str
    svg: str
    names: Sequence[Name]


@dataclass(frozen=True)
class Finding:
    """A sentence on what was found."""

    text: str
    verdict: str = ""
    of: str = ""  # the id of what it is about
    claim: str = ""  # the name of one, where it is on one


@dataclass(frozen=True)
class SettingsCompared(Finding):
    """A sentence on two settings of a grid, and the same in cells of a table."""

    p: float = 1.0  # by Holm
    cells: Words = ()


@dataclass(frozen=True, kw_only=True)
class ShownClaim(Verdict):
    """A claim's verdict, with its numbers as text."""

    ours: str
    side: str  # of the line on which it holds
    of: str  # the id of its result


@dataclass(frozen=True, kw_only=True)
class KeptResult:
    """The kept result of a grid, an experiment, a comparison or a fit."""

    id: str
    sort: str  # of results, which has a section of the page
    path: str
    name: str
    title: str
    parts: Sequence[str | Content] = ()  # of a fit: sentences and tables, each with head and rows
    source: str = ""
    scale: str = ""
    command: str = ""
    panels: Sequence[Panel] = ()
    claims: Sequence[ShownClaim] = ()
    missing: Words = ()
    remarks: Words = ()
    members: Records = ()
    # Of a grid: settings that vary, words of those that do not, and the rows of its tables.
    varied: Words = ()
    shared: Words = ()
    settings: Records = ()
    tests: Records = ()
    effects: Records | None = None  # None: of a version before there were any


@dataclass(frozen=True)
class ShownRun:
    """A run as the page has it."""

    row: Row
    id: str
    model: str  # with its task and loops
    command: str
    remarks: Words
    figures: Sequence[ShownPanel]

    @property
    def title(self) -> str:
        """The model and the seed."""
        return f"{self.model}, seed {self.row.seed}"


@dataclass(frozen=True)
class Seeds:
    """Runs that differ in their seed alone: a row of the table of runs."""

    values: Words  # of the settings in which runs differ
    title: str
    runs: Sequence[ShownRun]
    error: str
