"""One picture of a run, an evaluation or a comparison, on axes of one's own.

plot("shipped/linear", "error_by_loop")
"""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING

from looplab.conf.mistakes import check_choice
from looplab.training.run_folder.run import Run, shown_evaluation

from .drawing import styled
from .evaluate_run import panels_of_training
from .figures import comparison_panels, evaluation_panels
from .load import run_of
from .panel import Panel
from .report import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot(run: Run | str | PathLike[str] | Result, what: str = "", ax: Axes | None = None) -> Axes:
    """Draw one picture, with labels, scales and a legend.

    Parameters
    ----------
    run : Run, str, path, or what `evaluate`, `compare` and `train_grid` return
        Of a run the training is drawn, or the evaluation that its folder shows.
    what : str
        error_by_examples (the default), error_by_loop, training or another of the names in
        figures/; of a grid, where it is not given, the first.
    ax : matplotlib.axes.Axes, optional
        Where it is drawn; in a new figure, where not given.

    Raises
    ------
    ConfigError
        For a picture that there is not.
    RunError
        For a run that was not evaluated: `evaluate(run)` first.

    Examples
    --------
    >>> from looplab import evaluate, plot
    >>> axes = plot(evaluate("shipped/linear", prompts=16, resamples=20))
    >>> axes.get_xlabel()
    'examples in the prompt'
    """
    if isinstance(run, Result) and "panels" in run:  # of a grid
        panels = [Panel.read(panel) for panel in run["panels"]]
        what = what or panels[0].name
    elif isinstance(run, Result):
        panels = comparison_panels(run) if "runs" in run else evaluation_panels(run)
    else:
        run = run_of(run)
        panels = panels_of_training(run)
        if what not in [panel.name for panel in panels]:
            panels += evaluation_panels(shown_evaluation(run))
    what = what or "error_by_examples"
    check_choice("what", what, names := [panel.name for panel in panels])
    panel = panels[names.index(what)]
    if ax is not None:
        panel.draw(ax)
        ax.legend(fontsize="small")
        return ax
    from matplotlib import pyplot

    with styled():
        figure, ax = pyplot.subplots()
        panel.draw(ax)
        figure.legend(loc="outside lower center", ncols=2)
    return ax
