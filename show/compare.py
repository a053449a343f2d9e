"""Compare runs on the same prompts, keep what was found and draw it.

result = compare(["runs/A", "runs/B"], prompts=320)
"""

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from looplab.conf.checks.folders import check_folder
from looplab.conf.checksum import key_of
from looplab.conf.schema import Config, EvaluationConfig, FigureSettings
from looplab.conf.words import run_py
from looplab.evaluation.comparison import compared
from looplab.evaluation.evaluate_run import setting_words
from looplab.evaluation.kept import shown
from looplab.evaluation.load import run_of
from looplab.evaluation.remarks import shared
from looplab.training.device import torch_defaults
from looplab.training.run_folder.run import Run

from .drawing import save_panels
from .figures import comparison_panels, run_labels, title
from .report import Result


@torch_defaults()
def compare(
    runs: Sequence[Run | str | PathLike[str]],
    settings: EvaluationConfig | None = None,
    folder: str | PathLike[str] = Config.folder,
    device: str = "auto",
    figures: FigureSettings | None = None,
    **changes: Any,
) -> Result:
    """Evaluate every run on the same prompts and compare the others with the first.

    Runs that differ in their seed alone are one of its `curves`, whose label says in words what
    sets it apart. Each is read at `evaluation.loops`, its own b by default, and its evaluation is
    kept in its folder.

    Parameters
    ----------
    runs : sequence of Run, str or path
        Of the same task.
    folder : str or path
        Where compare-HASH/ with comparison.json and figures/ is made.
    settings, device, figures, **changes
        As of `evaluate`, the same for all.

    Returns
    -------
    dict
        The content of comparison.json with its `path`. Each of its `runs` has what its evaluation
        has, a language model `bits_per_byte` at these loops as well; `minus_first` has the errors
        by examples, or these bits, less the first run's, paired by prompt or block.

    Raises
    ------
    ConfigError
        For a run named twice, runs of different tasks, or a wrong setting.

    Examples
    --------
    >>> from looplab import compare
    >>> result = compare(["shipped/linear", "shipped/linear-standard"], prompts=16, resamples=20)
    >>> len(result["runs"])
    2
    """
    members = list(map(run_of, runs))
    check_folder("folder", str(folder))
    figures = figures or FigureSettings()
    result, settings = compared(members, settings or EvaluationConfig(), changes, device)
    labels = run_labels(result)
    remarks = shared({labels[name]: run.remarks for name, run in result.runs.items()})
    result = replace(result, remarks=remarks)
    # The keys of the evaluations: the same runs, read otherwise, are another comparison.
    key = key_of([[name, run.key] for name, run in result.runs.items()], 8)
    result_folder = Path(folder, f"compare-{key}")
    panels = comparison_panels(result)
    paths = ",".join(run.path.as_posix() for run in members)
    words = setting_words(settings, EvaluationConfig())
    command = run_py("action=compare", f"runs=[{paths}]", *words)
    heading = f"{title(result)}: {', '.join(result.curves)}"
    content = result.plain() | {
        "title": heading,
        "command": command,
        "panels": [panel.plain() for panel in panels],
        "figures": figures.plain(),
    }

    def make() -> list[Path]:
        return save_panels(result_folder / "figures", panels, figures, title(result), remarks)

    shown(result_folder / "comparison.json", "comparison", content, make)
    return Result(result.plain() | {"path": str(result_folder)})
