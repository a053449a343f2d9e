"""A run folder as a part of the page: what it is, how far it came, its figures, settings and
environment."""

from __future__ import annotations

import re
import shlex
from contextlib import suppress
from pathlib import Path
from typing import Any

from looplab.conf.build import config_to_mapping, flatten
from looplab.conf.command import as_word
from looplab.conf.mistakes import ConfigError, RunError, one_line
from looplab.conf.saved import read_config
from looplab.conf.schema import Config
from looplab.conf.words import run_py
from looplab.evaluation.remarks import remarks_of
from looplab.evaluation.style import kind_of
from looplab.training.assemble import build_task, trained_loops
from looplab.training.run_folder.files import read_record
from looplab.training.run_folder.metrics import Metrics
from looplab.training.run_folder.run import RunFolder

from .figure import Figure, figure, short
from .folders import anchor
from .kept import Kept

_FILES = ("config.yaml", "environment.json", "evaluation.json", "metrics.jsonl")
_UNREADABLE = (KeyError, TypeError, ValueError, IndexError, AttributeError)
_ROOMS = "looplab|probing|openml_eval|evaluation|experiments|benchmarks"
_MODULE = re.compile(rf"(?:.*/)?((?:{_ROOMS})(?:/\w+)*)")


def run_part(path: Path, kept: Kept, *, with_figures: bool) -> tuple[dict[str, Any], list[str]]:
    """The part of a run, and a line for each of its files that cannot be used. Raises ConfigError
    or RunError for a folder whose configuration cannot be read."""
    config, folder = read_config(path), RunFolder(path)
    status = folder.status()
    step = int(status["step"])
    part = kept.part(
        [path / name for name in _FILES],
        [str(path), with_figures],
        lambda: _made(folder, config, with_figures),
    )
    lines = _remarks(path, config, step)
    if status["state"] not in ("finished", "new"):
        lines.insert(0, f"{status['state']} at step {step:,} of {config.training.steps:,}")
    return {
        **part,
        "id": anchor("run", path),
        "name": path.resolve().name,
        "path": path.as_posix(),
        "title": _title(config),
        "state": status["state"],
        "step": step,
        "steps": config.training.steps,
        "remarks": lines,
        "settings": _settings(config),
    }, part["problems"]


def _made(folder: RunFolder, config: Config, with_figures: bool) -> dict[str, Any]:
    """All that depends on the run's files alone."""
    path, problems = folder.path, list[str]()
    made_with = read_record(path / "environment.json", "environment")
    environment = made_with.content or {}
    problems += [made_with.problem] if made_with.problem else []
    command = as_typed(environment.get("command"))
    figures, error = _evaluation(path, with_figures, problems)
    figures += _training(folder, config, command, with_figures, problems)
    return {
        "figures": figures,
        "error": error,
        "command": command,
        "environment": {
            key: value if isinstance(value, str) else str(value)
            for key, value in environment.items()
            if key not in ("command", "sources", "continued") and value is not None
        },
        "problems": problems,
    }


def _evaluation(path: Path, with_figures: bool, problems: list[str]) -> tuple[list[Figure], str]:
    """The figures of evaluation.json, and the last query's error at b loops."""
    record = read_record(path / "evaluation.json", "evaluation")
    if record.content is None:
        problems += [record.problem] if record.problem else []
        return [], ""
    from looplab.evaluation.figures import evaluation_panels  # loads torch

    result: Any = record.content
    try:
        at_b = result["by_examples"]["model_at_b"]
        low, mean, high = (short(at_b[part][-1]) for part in ("low", "mean", "high"))
        panels = evaluation_panels(result) if with_figures else []
        figures = [figure(panel, result["command"], of=path.name) for panel in panels]
        return figures, f"{mean} ({low} to {high})"
    except _UNREADABLE as error:
        problems.append(
            f"{path / 'evaluation.json'} has another form than this version's "
            f"({type(error).__name__}: {one_line(error)}); action=evaluate makes it anew"
        )
        return [], ""


def _training(
    folder: RunFolder, config: Config, command: str, with_figures: bool, problems: list[str]
) -> list[Figure]:
    from looplab.evaluation.figures import training_panels

    records, skipped = Metrics(folder.metrics).read()
    problems += [f"{folder.metrics}: {line}" for line in skipped[:1]]
    if len(skipped) > 1:
        problems[-1] += f", and {len(skipped) - 1} more lines"
    panels = training_panels(records, kind_of(config.model)) if with_figures else []
    return [figure(panel, command, of=folder.path.name) for panel in panels]


def _remarks(path: Path, config: Config, step: int) -> list[str]:
    try:
        return remarks_of(path, config, build_task(config), step)
    except (ConfigError, RunError, OSError):  # a task whose data are not here
        steps = config.training.steps
        return [f"training unfinished: {step:,} of {steps:,} steps"] if step != steps else []


def _title(config: Config) -> str:
    task, family = config.task, config.model.family
    name, unit = task.name.replace("_", " "), "layer" if family == "standard" else "loop"
    loops = trained_loops(config)
    units = f"{loops} {unit}{'s' if loops != 1 else ''}"
    return f"{name}, d = {task.dims}: {family}, {units}, seed {config.seed}"


def _settings(config: Config) -> dict[str, str]:
    """Every setting by its key, as the command line writes it."""
    flat = flatten(config_to_mapping(config))
    del flat["schema_version"], flat["folder"]
    return {key: as_word(value) for key, value in flat.items()}


def as_typed(recorded: Any) -> str:
    """The command that environment.json recorded (a script's path and its words) as it is typed in
    the project's folder; empty where none is known."""
    if not isinstance(recorded, str) or not recorded.strip():
        return ""
    script, *words = recorded.split(" ")
    with suppress(ValueError):  # an apostrophe of an earlier version's, which did not quote
        script, *words = shlex.split(recorded)
    if script.rpartition("/")[2] == "run.py":
        return run_py(*words)
    if script.rpartition("/")[2] == "looplab":
        return shlex.join(["looplab", *words])
    module = _MODULE.fullmatch(script.removesuffix(".py").removesuffix("/__main__"))
    if module:
        return shlex.join(["python", "-m", module[1].replace("/", "."), *words])
    return shlex.join([script, *words])
