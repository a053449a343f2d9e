"""Shared by both measurements of this room: a result that is kept in the run's folder under what
was asked for, and shown beside its pictures.

request = request_of(run, settings, dynamics)
result = kept_and_shown(run, "dynamics", request, compute, panels, settings)
"""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from looplab.conf.mistakes import ConfigError
from looplab.evaluation.evaluator import weights_digest
from looplab.evaluation.kept import Arrays, arrays_of, kept, shown
from looplab.evaluation.remarks import remarks
from looplab.evaluation.results import kind_of
from looplab.show.drawing import save_panels
from looplab.show.panel import Panel
from looplab.training.assemble import trained_loops
from looplab.training.run_folder.files import write_arrays
from looplab.training.run_folder.run import Run, RunFolder
from looplab.training.run_folder.sources import measured_by

from .settings import DynamicsSettings, ProbingSettings

Result = dict[str, Any]  # plain values, as JSON has them
Probing = Result  # the content of probing.json
FOLDERS = {"probing": "probing", "dynamics": "probing/dynamics"}  # of a run's results
# Settings that do not bear on the result.
_NO_EFFECT = ("run", "device", "memory", "plugins", "figures", "tables")


def request_of(
    run: Run,
    settings: ProbingSettings | DynamicsSettings,
    measure: Callable[..., Any],
    *targets: type,
) -> dict[str, object]:
    """All that a result of `measure` depends on; `targets` are the classes of those asked for.
    Raises ConfigError for more loops than the run's model has weights for."""
    most = run.model.loop.most_loops
    loops = settings.loops
    if loops is not None and most is not None and loops > most:
        raise ConfigError("loops", f"is {loops}, but this model has weights for {most} and no more")
    values = asdict(settings)
    request = {
        "step": run.step,
        "weights": weights_digest(run.model),
        "settings": {key: values[key] for key in values if key not in _NO_EFFECT},
        "sources": measured_by(measure, type(run.task), *targets),
    }
    data = run.task.data.identity()
    if data:
        request["data"] = data
    return request


def kept_and_shown(
    run: Run,
    kind: str,
    request: dict[str, object],
    compute: Callable[[], tuple[Result, Arrays | None]],
    panels: Callable[[Result], list[Panel]],
    settings: ProbingSettings | DynamicsSettings,
) -> Result:
    """The result of a request: the one in the run folder, or what `compute` returns after the facts
    of the run. Of a standard model `b` are its layers; `style` is the kind of its curves.

    It is found again for the same weights, settings and code. <kind>.json, its arrays in <kind>.npz
    and the pictures of its panels show the last one that was requested. Raises RunError where
    another process is measuring.
    """

    def compute_alone() -> tuple[Result, Arrays | None]:
        with RunFolder(run.path).lock(kind):
            measured, arrays = compute()
        facts = {
            "task": run.config.task.name,
            "family": run.config.model.family,
            "style": kind_of(run.config.model),
            "dims": run.task.dims,
            "b": trained_loops(run.config),
        }
        return facts | measured, arrays

    folder = run.path / FOLDERS[kind]
    result: Result = kept(folder / "kept", kind, request, compute_alone)
    result["remarks"] = remarks(run)

    def make() -> list[Path]:
        pictures = folder / "figures" if kind == "probing" else folder
        above = title(result), result["remarks"]
        files = save_panels(pictures, panels(result), settings.figures, *above)
        if "arrays_sha256" in result:
            files.append(run.path / f"{kind}.npz")
            write_arrays(files[-1], arrays_of(folder / "kept", result))
        return files

    # How pictures look does not bear on the result, but on what is shown.
    drawn = result | {"figures": settings.figures.plain()}
    shown(run.path / f"{kind}.json", kind, drawn, make)
    return result


def title(result: Result) -> str:
    """Model, task and dimensions."""
    return f"{result['family']} on {result['task'].replace('_', ' ')}, d = {result['dims']}"
