"""`python run.py experiment=…`: published figures and tables, and further questions, by name;
`python run.py -m …`: grids, many runs of one command; `action=report`: one page of everything in
the runs folder. No torch here.

settings, words = grid_settings(["task=linear", "seed=0,1", "jobs=4"])
"""

import sys
from collections.abc import Sequence

from looplab.conf.checks.processes import refuse_torchrun
from looplab.conf.checks.reach import check_reach
from looplab.conf.command import answered, described, run_command
from looplab.conf.compose import grid_commands
from looplab.conf.help import help_text as help_of_runs
from looplab.conf.mistakes import ConfigError
from looplab.conf.words import as_called, settings_from_words
from looplab.show.settings import ReportSettings

from .definition import load, names
from .settings import ExperimentSettings, GridSettings

MULTIRUN = {"-m", "--multirun"}
_STOP_MESSAGE = "stopped, with every training saved; the same command resumes"


_HELP = """\
Carry out named experiments: train their runs, measure, draw, and judge the claims of their papers.

  python run.py experiment=fig03                      minutes on a laptop
  python run.py experiment=fig03 action=plan          its runs, and the time they take
  python run.py experiment=fig03 action=figure        drawn from what is finished
  python run.py experiment=fig02,fig03 scale=medium
  python run.py experiment=all                        those on functions in context
  python run.py experiment=all_language text=wiki.txt those on texts, on a text of your own

Runs are ordinary run folders, under the names that they have when trained by hand: experiments
share them, and the models that ship are taken where they fit. The same command resumes.

Experiments
{experiments}

Settings, with their defaults:
{settings}

Exit code: 0 done, 1 a run failed, 2 a mistake in the command, 130 and 143 stopped by a signal.
"""


def main(words: Sequence[str]) -> int:
    """Run `experiment=…`; returns the exit code."""
    if MULTIRUN & set(words):
        hint = "is for runs; several experiments: experiment=fig03,fig04"
        print(as_called(f"run.py: -m {hint}"), file=sys.stderr)
        return 2

    def help_text() -> str:
        lines = []
        for experiment in map(load, names()):
            scales = ", ".join(experiment.scales)
            lines.append(f"  {experiment.name:20} {experiment.title} ({scales})")
        return _HELP.format(experiments="\n".join(lines), settings=described(ExperimentSettings))

    def carry_out(settings: ExperimentSettings) -> str:
        if settings.action == "plan":
            from .plan import plan

            return plan(settings)
        from .engine import perform

        return perform(settings)

    return run_command("run.py", ExperimentSettings, words, help_text, carry_out, _STOP_MESSAGE)


def grid_settings(words: Sequence[str]) -> tuple[GridSettings, list[str]]:
    """The settings of a grid, and the words of its runs. Raises ConfigError for a mistake in one of
    the former."""
    of_grid = []
    of_runs = []
    for word in words:
        key, _, value = word.partition("=")
        if not _is_of_grid(word):
            of_runs.append(word)
            continue
        if key == "engine":  # for short
            key = "engine.name"
        if key == "devices" and value and value[0] != "[":  # 0,1
            value = f"[{value}]"
        of_grid.append(f"{key}={value}")
    settings = settings_from_words(GridSettings, of_grid)
    settings.check()
    return settings, of_runs


def _is_of_grid(word: str) -> bool:
    """Says whether a word sets something of a grid: jobs=4, engine.minutes=60."""
    return word.partition("=")[0].partition(".")[0] in GridSettings.__dataclass_fields__


def check_single(words: Sequence[str]) -> None:
    """Raises ConfigError where the words of a single run set something of a grid."""
    for word in filter(_is_of_grid, words):
        raise ConfigError(word.partition("=")[0], "is for the runs of a grid: run.py -m …")


def grid(words: Sequence[str]) -> int:
    """Run `run.py -m …`; returns the exit code."""
    if {"-h", "--help"} & set(words):
        print(as_called(help_of_runs()), end="")
        return 0

    def run() -> int:
        refuse_torchrun("a grid (-m)")
        is_plan = "action=plan" in words
        others = [word for word in words if word not in MULTIRUN and word != "action=plan"]
        settings, of_runs = grid_settings(others)
        commands = grid_commands(of_runs)
        for command in commands:
            device = command.config.device
            if settings.engine.name == "local" and not is_plan:
                check_reach(command.config)
            if settings.devices and device not in ("auto", "cuda"):
                raise ConfigError("devices", f"has no meaning with device={device}")
        # What follows imports torch: a mistake in the words need not wait for it.
        if not is_plan:
            from .grid import run_grid

            return run_grid(commands, settings)
        from .grid_result import Grid
        from .plan import plan_of_grid

        planned = Grid.of(commands)
        title = f"{planned.title}: {planned.folder}"
        print(plan_of_grid(title, planned.members, settings), flush=True)
        return 0

    return answered("run.py", run, _STOP_MESSAGE, in_processes=True)


_REPORT_HELP = """\
Write one HTML page of what was measured, to be read, sent or printed: what was found in a few
sentences, then grids with their effects, experiments with their claims, comparisons, and runs, each
with its table, its command, and figures that answer to mouse and keyboard.

  python run.py action=report                           everything, as report/index.html
  python run.py action=report experiment=fig03          one experiment
  python run.py action=report runs=runs/grid-NAME       one grid; runs=runs/A,runs/B: two runs

Settings, with their defaults:
{settings}
The page loads nothing from elsewhere. Nothing is trained or measured for it; figures that have not
changed are taken from the last report (<output>/cache).
"""


def report(words: Sequence[str]) -> int:
    """Run `action=report`; returns the exit code."""
    help_text = _REPORT_HELP.format(settings=described(ReportSettings))

    def write(settings: ReportSettings) -> str:
        from looplab.show.page.page import write_report

        return write_report(settings)

    return run_command("run.py", ReportSettings, words, lambda: help_text, write)
