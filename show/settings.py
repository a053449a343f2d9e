"""Settings of `python run.py action=report` and `action=play`. No torch here.

ReportSettings(folder="runs", output="report").check()
"""

from dataclasses import MISSING, dataclass
from os import PathLike
from pathlib import Path

from looplab.conf.checks.folders import check_folder
from looplab.conf.files import choices
from looplab.conf.mistakes import ConfigError, check_choice
from looplab.conf.saved import SHELF, read_config, unpacked
from looplab.conf.schema import Config
from looplab.conf.setting import check_settings, setting

_PLAYED = ("curves", "tables_prior")
_CLASSIFIER = "classifier"


@dataclass(frozen=True)
class ReportSettings:
    """What a report is about, and where it is written."""

    folder: str = setting("runs", "where runs, experiments and comparisons are")
    runs: tuple[str, ...] = setting(
        (), "folders of runs, grids or experiments that the page is about; none: everything"
    )
    experiment: tuple[str, ...] = setting((), "names of experiments that the page is about")
    output: str = setting(
        "report", "the folder of the page: index.html, or NAME.html of what it is about"
    )

    def check(self) -> None:
        """Raises ConfigError for the first invalid setting, and as `paths`."""
        check_settings("", self)
        check_folder("output", self.output)
        self.paths()

    def paths(self) -> list[Path]:
        """The folders that the page is about, of an experiment those of every scale and number of
        seeds; none for everything. Raises ConfigError for one that is not there."""
        paths = [unpacked(path) for path in self.runs]
        for path in paths:
            if not any(path.glob("*.json")):
                raise ConfigError("runs", f"must name a run, a grid or an experiment: {path}")
        for name in self.experiment:
            results = sorted(Path(self.folder).glob(f"experiments/{name}-*/result.json"))
            if not results:
                check_choice("experiment", name, choices("experiment"))
                made = f"python run.py experiment={name} makes it"
                raise ConfigError("experiment", f"{name} has no result in {self.folder}: {made}")
            paths += [path.parent for path in results]
        return paths


@dataclass(frozen=True)
class PlaySettings:
    """Whose page, what else is on it, and where it is written."""

    run: str = setting(
        MISSING, "the run of task=curves or tables_prior, or classifier, which ships"
    )
    also: tuple[str, ...] = setting((), "runs of the same task, shown on the same points")
    output: str = setting("play", "the folder of the page: <name of the run>.html")

    def check(self) -> None:
        """Raises ConfigError for the first invalid setting."""
        check_settings("", self)
        for path in (self.run, *self.also):
            folder = unpacked(played_path(path))
            check_played(folder, read_config(folder))
        check_folder("output", self.output)


def played_path(path: str | PathLike[str]) -> Path:
    """The path of a run; that of the classifier that ships for its name."""
    if path == _CLASSIFIER:
        return SHELF.parents[1] / "openml_eval" / "checkpoints" / _CLASSIFIER
    return Path(path)


def check_played(folder: Path, config: Config) -> None:
    """Raises ConfigError for a run of a task that has no page."""
    if config.task.name not in _PLAYED:
        tasks = " or ".join(_PLAYED)
        problem = f"is of task={config.task.name}: a page plays runs of task={tasks}"
        raise ConfigError(str(folder), problem)
