"""Transfer to real tables (`python -m openml_eval`) in a named experiment.

The entry of `settings`, one, is those of the command: its own (tables, held_out, model, seeds, …)
and run.py's (scale, training.steps, …), without folder and jobs. The result, under "openml", is the
content of openml.json. The tables must be stored first: without them nothing is done.
"""

from __future__ import annotations

import shlex
from dataclasses import fields, replace
from pathlib import Path

from looplab.conf.build import build
from looplab.conf.compose import command_of
from looplab.conf.mistakes import RunError
from looplab.conf.schema import Config
from looplab.openml_eval.leave_one_out import leave_one_out, stored
from looplab.openml_eval.report import accuracy_panel
from looplab.openml_eval.settings import RunSettings, split_words
from looplab.openml_eval.tables.table import check_tables

from ...measuring import Measurement, Request


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
    try:
        if not request.stored_only:
            leave_one_out(settings, configs)
        result = stored(settings, configs)
    except RunError as error:
        return Measurement(missing=[f"held-out tables: {error}"])
    if result is None:
        return Measurement(missing=["held-out tables: not measured yet"])
    panel = replace(accuracy_panel(result), name="openml-accuracy")
    return Measurement({"openml": result}, [panel], result["failed"])


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
