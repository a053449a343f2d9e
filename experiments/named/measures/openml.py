"""Transfer to real tables (`python -m openml_eval`) in a named experiment.

The entry of `settings`, one, is those of the command: its own (tables, held_out, model, seeds, …)
and run.py's (scale, training.steps, …), without folder and jobs. The result, under "openml", is the
content of openml.json. The tables must be stored first: without them nothing is done.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from looplab.conf.build import build
from looplab.conf.compose import command_of
from looplab.conf.mistakes import RunError
from looplab.conf.schema import Config
from looplab.evaluation.bootstrap import Interval, numbers
from looplab.evaluation.panel import Curve, Panel, without_interval
from looplab.openml_eval.leave_one_out import leave_one_out, stored
from looplab.openml_eval.report import accuracy_curves
from looplab.openml_eval.settings import RunSettings, split_words
from looplab.openml_eval.tables.store import check_tables

from ...measuring import Measurement, Request

_PAPER = ", paper"  # ends the names of published accuracies


def measure(request: Request) -> Measurement:
    """Train and score each model with each table left out, or read what is stored. Runs that fail,
    and tables that are not there, are said in `missing`. Raises ConfigError for invalid
    settings."""
    settings, configs = settings_of(request)
    try:
        check_tables(Path(settings.data_dir), list(settings.tables))
    except RunError:
        folder = settings.data_dir
        where = "" if folder == RunSettings.data_dir else f" {shlex.quote(f'data_dir={folder}')}"
        return Measurement(missing=[f"the ten tables: python -m openml_eval action=fetch{where}"])
    missing = []
    try:
        if not request.stored_only:
            missing = leave_one_out(settings, configs).failures
        result = stored(settings, configs)
    except RunError as error:
        return Measurement(missing=[f"held-out tables: {error}"])
    if result is None:
        return Measurement(missing=["held-out tables: not measured yet"])
    panels = [_panel(result)] if result["tables"] else []
    return Measurement({"openml": result}, panels, missing)


def settings_of(request: Request) -> tuple[RunSettings, dict[str, Config]]:
    """The command's own settings, and the configurations of its models by family."""
    given = request.only_settings("the tables", "folder", "jobs")
    split_words([f"{key}=" for key in given])  # refuses what follows from other settings
    names = {field.name for field in fields(RunSettings)}
    own = {key: value for key, value in given.items() if key in names}
    rest = {key: value for key, value in given.items() if key not in names}
    settings = build(RunSettings, {**own, "jobs": request.processes})
    settings.check()
    configs: dict[str, Config] = {
        family: replace(
            command_of({"task": "tables", "model": family, **rest}).config, folder=request.folder
        )
        for family in settings.model
    }
    return settings, configs


def _panel(result: Mapping[str, Any]) -> Panel:
    """Accuracy by table: models and solvers, published numbers, and the larger class's share."""
    entries = result["tables"]
    curves: list[Curve] = []
    for name, parts in accuracy_curves(entries).items():
        interval = Interval(*(numbers(parts[part]) for part in ("mean", "low", "high")))
        curves.append(Curve.of(name, "published" if name.endswith(_PAPER) else name, interval))
    shares = numbers([entry["majority_share"] for entry in entries])
    curves.append(Curve.of("larger class", "larger_class", without_interval(shares)))
    return Panel(
        "openml-accuracy",
        "accuracy on held-out tables",
        "held-out table",
        f"accuracy, {result['k']} rows of context",
        range(len(entries)),
        curves,
        x_names=[entry["label"] for entry in entries],
    )
