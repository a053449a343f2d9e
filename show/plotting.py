"""One picture of a run, an evaluation, a comparison or a grid, on axes of one's own.

plot("shipped/linear", "error_by_loop")
plot("runs/grid-1a2b3c4d", labels={"gated injection": "gated (ours)"})
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from looplab.conf.mistakes import ConfigError, RunError, check_choice
from looplab.evaluation.comparison import Comparison
from looplab.evaluation.evaluation import Evaluation
from looplab.evaluation.load import run_of
from looplab.evaluation.plain import Content
from looplab.training.run_folder.files import read_record
from looplab.training.run_folder.run import Run, shown_evaluation

from .drawing import styled, unknown_names
from .evaluate import panels_of_training
from .figures import EVALUATION_PANELS, comparison_panels, evaluation_panels
from .panel import Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# What the folder of a grid or an experiment, of a comparison, and of a grid that was interrupted
# holds: file and kind.
_RESULTS = {"result.json": "experiment", "comparison.json": "comparison", "begun.json": "begun"}


def plot(
    run: Run | str | PathLike[str] | Content,
    what: str = "",
    ax: Axes | None = None,
    labels: Mapping[str, str] | None = None,
) -> Axes:
    """Draw one picture, with labels, scales and a legend.

    Parameters
    ----------
    run : Run, str, path or dict
        A run or its folder, of which the training is drawn, or the evaluation that the folder
        shows; the folder of a grid, an experiment or a comparison; or what `evaluate`, `compare`
        and `train_grid` return, which is also the content of their JSON files.
    what : str
        error_by_examples (the default), error_by_loop, training or another of the names in
        figures/; of a grid, where it is not given, the first.
    ax : matplotlib.axes.Axes, optional
        Where it is drawn; in a new figure, where not given.
    labels : dict, optional
        Other names for curves in the legend, by those that they have.

    Raises
    ------
    ConfigError
        For a picture that there is not, a name that no curve has, and what is no result.
    RunError
        For a run that was not evaluated: `evaluate(run)` first; and for a grid without a finished
        run, or whose command was interrupted.

    Examples
    --------
    >>> from looplab import evaluate, plot
    >>> axes = plot(evaluate("shipped/linear", prompts=16, resamples=20))
    >>> axes.get_xlabel()
    'examples in the prompt'
    """
    if ax is not None and not hasattr(ax, "set_xlabel"):  # as a row of subplots
        raise ConfigError("ax", f"must be matplotlib's axes, got {ax!r}")
    labels = {} if labels is None else labels
    is_dict = isinstance(labels, Mapping)
    words = [*labels, *labels.values()] if is_dict else []
    if not is_dict or not all(isinstance(word, str) for word in words):
        raise ConfigError("labels", f"must be a dict of new names by old ones, got {labels!r}")
    panels = {panel.name: panel for panel in _panels_of(run, what)}
    what = what or next(iter(panels))
    check_choice("what", what, list(panels))
    if problems := unknown_names([panels[what]], labels):
        raise ConfigError("labels", problems[0])
    panel = panels[what].renamed(labels)
    if ax is not None:
        panel.draw(ax)
        ax.legend(fontsize="small")
        return ax
    # Only where a figure is made: pyplot chooses a backend, which scripts on axes of their own do.
    from matplotlib import pyplot

    with styled():
        figure, ax = pyplot.subplots()
        panel.draw(ax)
        figure.legend(loc="outside lower center", ncols=2)
    return ax


def _panels_of(shown: object, what: str) -> list[Panel]:
    """The panels of a run, a folder or a result, that which is drawn without a name first. Of a run
    they are those of its training where the picture `what` is one of these."""
    if isinstance(shown, str | PathLike) and Path(shown).is_dir():
        for name, kind in _RESULTS.items():
            record = read_record(Path(shown, name), kind)
            if record.problem:
                raise RunError(record.problem)
            if record.content is not None:
                return _panels_of_result(record.content)
    if isinstance(shown, Mapping):
        return _panels_of_result(shown)
    if not isinstance(shown, Run | str | PathLike):
        raise ConfigError("run", f"must be a run, a folder or a result, got {shown!r}")
    run = run_of(shown)
    of_training = panels_of_training(run)
    names = [panel.name for panel in of_training]
    if what in names:
        return of_training
    if what and not what.startswith("shift"):  # before it is said that an evaluation is missing
        check_choice("what", what, [*EVALUATION_PANELS, *names])
    return _panels_of_result(shown_evaluation(run)) + of_training


def _panels_of_result(result: Content) -> list[Panel]:
    """The panels of an evaluation, a comparison, a grid or an experiment."""
    if "panels" in result or "members" in result:
        panels = [Panel.read(panel) for panel in result.get("panels", ())]
    elif {"runs", "curves"} <= result.keys():
        panels = comparison_panels(Comparison.read(result))
    elif {"by_examples", "by_loop"} <= result.keys():
        panels = evaluation_panels(Evaluation.read(result))
    else:
        raise ConfigError("run", "must be a result of evaluate, compare or train_grid, got a dict")
    if not panels:
        raise RunError("no pictures yet: no run is finished, or its command has not ended")
    return panels
