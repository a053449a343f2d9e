"""Evaluate a run, store the result in its folder and draw it.

result = evaluate("shipped/linear", prompts=320)
"""

from collections.abc import Iterator
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from looplab.conf.checks.folders import is_writable
from looplab.conf.mistakes import ConfigError, RunError
from looplab.conf.schema import EvaluationConfig, FigureSettings
from looplab.evaluation.evaluate_run import KIND, changed, evaluated, logged
from looplab.evaluation.evaluation import Evaluation
from looplab.evaluation.kept import shown
from looplab.evaluation.load import run_of
from looplab.evaluation.remarks import remarks
from looplab.evaluation.results import kind_of
from looplab.training.assemble import build_curriculum
from looplab.training.device import torch_defaults
from looplab.training.logging import Trackers, check_trackers
from looplab.training.run_folder.files import write_arrays
from looplab.training.run_folder.run import Run, RunFolder
from looplab.training.run_folder.status import STOPPED_EARLY, one_number, status_of

from .drawing import save_panels
from .figures import evaluation_panels, title, training_panels
from .panel import Panel
from .report import Result


@torch_defaults()
def evaluate(
    run: Run | str | PathLike[str],
    settings: EvaluationConfig | None = None,
    device: str = "auto",
    figures: FigureSettings | None = None,
    **changes: Any,
) -> Result:
    """Measure the errors of a run's model and of the solvers on the evaluation prompts.

    Every evaluation is stored in the run folder, in evaluations/, under its request, and read from
    there if weights, settings and code are the same. evaluation.json, evaluation.npz and figures/
    are those of the one that was asked for last. An interrupted evaluation resumes. A run can be
    evaluated while it is trained. That of a finished run goes to its wandb and TensorBoard, too. Of
    a run whose folder cannot be written in, nothing is kept and nothing drawn.

    Parameters
    ----------
    run : Run, str or path
    settings : EvaluationConfig, optional
        Those of the run's configuration, where not given; so with `figures`.
    device : str
        auto, cpu, cuda or cuda:1.
    figures : FigureSettings, optional
    **changes
        Single settings by name, as docs/reference.md has them under `evaluation`.

    Returns
    -------
    dict
        The content of evaluation.json.

    Raises
    ------
    ConfigError
        For a setting that there is not, or a value that it cannot have.

    References
    ----------
    arXiv 2311.12424, Figure 2 (by loop and by examples); docs/deviations.md has what differs.

    Examples
    --------
    >>> from looplab import evaluate
    >>> result = evaluate("shipped/linear", prompts=16, resamples=20)
    >>> len(result["by_examples"]["model"]["mean"])
    21
    """
    run = run_of(run)
    settings = changed(settings or run.config.evaluation, changes, run.config)
    evaluation, arrays = evaluated(run, settings, device)
    evaluation = replace(evaluation, remarks=remarks(run))
    figures = figures or run.config.figures
    result = Result(evaluation.plain())

    def make() -> Iterator[Path]:
        # The lock is held until the generator's last file is written: `shown` reads it to its end.
        with RunFolder(run.path).lock(KIND):
            errors = run.path / "evaluation.npz"
            write_arrays(errors, arrays)
            yield errors
            panels = evaluation_panels(evaluation) + panels_of_training(run)
            folder = run.path / "figures"
            files = save_panels(folder, panels, figures, title(evaluation), evaluation.remarks)
            yield from files
            _track(run, evaluation, [file for file in files if file.suffix == ".png"])

    if is_writable(run.path):
        shown(run.path / "evaluation.json", KIND, result | {"figures": figures.plain()}, make)
    return result


def _track(run: Run, result: Evaluation, pictures: list[Path]) -> None:
    """Bring the evaluation of a training that has ended to its trackers, or print what keeps it
    from them: the errors at the largest k, that after b loops (of a text bits per byte), and the
    pictures."""
    if status_of(run.path)["state"] not in ("finished", STOPPED_EARLY):  # nor has a snapshot
        return
    bands = result.by_examples.bands
    values = {f"evaluation/{name}": band["mean"][-1] for name, band in bands.items()}
    values["evaluation/error"] = one_number(result.plain())
    try:
        check_trackers(run.config)
        trackers = Trackers(run.config, run.path, run.step)
        trackers.log(run.step, values, pictures)
        trackers.close()
    except (ConfigError, RunError) as problem:
        print(f"{run.path}: its evaluation is not tracked: {problem}", flush=True)


def panels_of_training(run: Run) -> list[Panel]:
    """The pictures of a run's training: its log and its curriculum."""
    kind = kind_of(run.config.model)
    curriculum = build_curriculum(run.config, run.task)
    return training_panels(logged(run), kind, curriculum, run.task.is_text)
