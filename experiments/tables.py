"""Transfer to real tables (arXiv 2311.12424, Table 2).

The entry of `settings`, one, is those of `python -m openml_eval`: its own (tables, held_out, model,
seeds, …) and run.py's, without folder and jobs. The result, under "openml", is the content of
openml.json. The tables must be stored first: without them nothing is done.
"""

import math
from collections.abc import Mapping
from dataclasses import replace

from looplab.conf.mistakes import RunError
from looplab.evaluation.statistics import Estimate, NotMeasured, Z, over_seeds
from looplab.openml_eval.leave_one_out import leave_one_out, stored
from looplab.openml_eval.report import accuracy_panel
from looplab.openml_eval.settings import asked

from .claims import Evidence
from .definition import words_of
from .in_context import of_paper
from .measuring import Measurement, Request


def measure(request: Request) -> Measurement:
    """Train and score each model with each table left out, or read what is stored. Runs that fail,
    and tables that are not there, are said in `missing`. Raises ConfigError for invalid
    settings."""
    given = request.only_settings("the tables")
    settings, configs = asked(words_of({**given, "jobs": request.processes}))
    configs = {name: replace(each, folder=request.folder) for name, each in configs.items()}
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


def _looped_less_standard(evidence: Evidence) -> Estimate:
    """Tables are what is resampled: their differences are far larger than those of draws."""
    differences, spreads, steps, seeds = [], [], list[int](), list[int]()
    for table in evidence.result("openml")["tables"]:
        if not {"looped", "standard"} <= table["models"].keys():
            continue
        looped, standard = (table["models"][family] for family in ("looped", "standard"))
        for model in (looped, standard):
            steps += [run["step"] for run in model["runs"]]
            seeds.append(len(model["runs"]))
        differences.append(looped["accuracy"]["mean"] - standard["accuracy"]["mean"])
        spreads.append(math.hypot(_error(looped["accuracy"]), _error(standard["accuracy"])))
    if not differences:
        raise NotMeasured("no table with a looped and a standard model")
    estimate = over_seeds(differences, spreads, what="table")
    tables, note = len(differences), "one seed" if min(seeds) == 1 else ""
    size = f"{tables} table{'s'[: tables > 1]}"
    return estimate._replace(seeds=min(seeds), steps=min(steps), size=size, note=note)


def _error(accuracy: Mapping[str, float]) -> float:
    """The standard error of an accuracy from its 90 % interval, or from its spread over draws."""
    if "low" in accuracy:
        return (accuracy["high"] - accuracy["low"]) / (2 * Z)
    return accuracy.get("std", 0.0)


for _name, _sentence, _more in (
    (
        "no_worse",
        "On tables that it was not trained on, a looped model is at least as accurate as a "
        "standard one.",
        {"above": 0.0},
    ),
    (
        "is_comparable",
        "On tables that it was not trained on, a looped model is about as accurate as a standard "
        "one.",
        {"above": -0.03, "line_set": "after"},
    ),
):
    of_paper(
        f"table2_looped_{_name}",
        _sentence,
        figure="Table 2",
        quantity="accuracy, looped less standard, mean over held-out tables",
        published="0.026 (mean of ten)",
        published_steps=100_000,
        published_size="10 tables",
        **_more,
    )(_looped_less_standard)
