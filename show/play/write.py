"""One page on which anyone draws points and watches models find the function, loop by loop.

page = play("shipped/curves", also=["shipped/curves-standard"])
print(write_page(PlaySettings(run="classifier", output="play")))
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from os import PathLike
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from looplab.conf.mistakes import ConfigError
from looplab.evaluation.load import load_run
from looplab.evaluation.results import kind_of
from looplab.tasks.curves import Curves
from looplab.tasks.tables_prior import TablesPrior
from looplab.training.run_folder.files import write_bytes
from looplab.training.run_folder.run import Run

from ..settings import PlaySettings, check_played, played_path
from ..style import styles_of
from .facts import curve_facts, model_facts, table_facts

_HERE = Path(__file__).parent
_BEYOND = 4  # times the loops of training, as far as a page goes
_MOST_POINTS = 40
_FRAME = 1360  # pixels that a notebook gives to a page
SCRIPTS = {  # by kind of page, beside the engine
    "curves": ("page.js", "curves.js"),
    "regions": ("page.js", "table.js", "regions.js"),
}


@dataclass(frozen=True)
class Page:
    """A page that needs nothing else; a notebook shows it."""

    html: str

    def _repr_html_(self) -> str:
        frame = f'style="width: 100%; height: {_FRAME}px; border: 0" srcdoc="{escape(self.html)}"'
        return f"<iframe {frame}></iframe>"


def play(run: Run | str | PathLike[str], also: Sequence[Run | str | PathLike[str]] = ()) -> Page:
    """Make the page of a run: points drawn by hand, predictions after each loop.

    Parameters
    ----------
    run : Run, str or path
        Whose loops are shown, of `task=curves` or of `task=tables_prior`; "classifier" is the
        classifier that ships, whose answers are those of `LoopedClassifier(n_orders=1)`.
    also : sequence, optional
        Other runs of the same task, shown on the same points.

    Returns
    -------
    Page
        Its `html` is a whole file, which loads nothing; a notebook shows it.

    Raises
    ------
    ConfigError
        For a task that has no page, another than the first run's, and a model that the page cannot
        compute.

    Examples
    --------
    >>> from looplab import play
    >>> play("shipped/linear")  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    looplab.conf.mistakes.ConfigError: runs/… is of task=linear: a page plays runs of …
    """
    runs = [_run_of(source) for source in (run, *also)]
    if runs[0].config.model.family == "standard":
        raise ConfigError("run", "must loop; a standard model goes into also=[…]")
    tasks = [_task_facts(member) for member in runs]
    for member, task in zip(runs, tasks, strict=True):
        if task != tasks[0]:
            raise ConfigError("also", f"must be of the same task as {runs[0].path}: {member.path}")
    colours = [style["color"] for style in styles_of([_kind(member) for member in runs])]
    models = [
        _run_facts(member, colour, tasks[0]["points"])
        for member, colour in zip(runs, colours, strict=True)
    ]
    labels = [model["label"] for model in models]
    for member, model in zip(runs, models, strict=True):
        if labels.count(model["label"]) > 1:
            model["label"] = f"{model['label']} ({member.path.name})"
    facts = {"task": tasks[0], "models": models}
    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined
    )
    kind = "curves" if isinstance(runs[0].task, Curves) else "regions"
    html = environment.get_template(f"{kind}.html").render(
        kind=kind,
        models=models,
        facts=Markup(json.dumps(facts).replace("<", r"\u003c")),  # which would end the script
        engine=_own("engine.js"),
        scripts=[_own(name) for name in SCRIPTS[kind]],
        style=_own("style.css"),
    )
    return Page(html)


def write_page(settings: PlaySettings) -> str:
    """Write the page of a run as <output>/<name of the run>.html; the text to print."""
    run = _run_of(settings.run)
    text = play(run, settings.also).html.encode()
    path = Path(settings.output) / f"{run.path.name}.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, text)
    return f"{path}: {len(text) / 1e3:.0f} kB"


def _own(name: str) -> Markup:
    """The text of a file beside this one."""
    return Markup((_HERE / name).read_text(encoding="utf-8"))


def _run_of(run: Run | str | PathLike[str]) -> Run:
    """The run itself, or that of a path or of the name of the classifier that ships."""
    return run if isinstance(run, Run) else load_run(played_path(run))


def _task_facts(run: Run) -> dict[str, Any]:
    """What a run was trained on, and the most points of a page. Raises ConfigError for a task that
    has no page."""
    check_played(run.path, run.config)
    points = min(run.config.task.points - 1, _MOST_POINTS)
    if isinstance(run.task, Curves):
        return {**curve_facts(run.task), "points": points}
    assert isinstance(run.task, TablesPrior)
    return {**table_facts(run.task), "points": points}


def _kind(run: Run) -> str:
    """That of the run's curves; a loop that injects nothing is tied layers."""
    model = run.config.model
    is_tied = model.family == "looped" and model.injection == "none"
    return "tied" if is_tied else kind_of(model)


def _run_facts(run: Run, colour: str, points: int) -> dict[str, object]:
    """A run's model as the page has it: its name there, its colour, its loops in training."""
    labels = {
        "looped": "one block, given the points in each loop",
        "tied": "one block, given the points once",
        "standard": f"{run.config.model.n_layer} different layers",
    }
    # Of curves three models share a page, and errors of 1e-3 are not seen.
    facts = model_facts(run.model, points, exact=not isinstance(run.task, Curves))
    loops = run.model.loop.most_loops or run.config.loops.b
    # A standard model ends with its layers; a loop goes on beyond its training.
    most = run.model.loop.most_loops or _BEYOND * loops
    return {**facts, "label": labels[_kind(run)], "colour": colour, "b": loops, "most": most}
