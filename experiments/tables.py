"""Transfer to real tables (arXiv 2311.12424, Table 2).

The entry of `settings`, one, is those of `python -m openml_eval`: its own (tables, held_out, model,
seeds, …) and run.py's, without folder and jobs. The result, under "openml", is the content of
openml.json. The tables must be stored first: without them nothing is done.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from looplab.conf.mistakes import RunError
from looplab.evaluation.statistics import RESAMPLES, SEED, Estimate, NotMeasured, Z, over_seeds
from looplab.openml_eval.leave_one_out import leave_one_out, stored
from looplab.openml_eval.report import accuracy_panel
from looplab.openml_eval.settings import asked

from .definition import words_of
from .evidence import Evidence
from .question import Answer, Request

_ENDS = (5, 95)  # percentiles of a 90 % interval
Runs = Sequence[Mapping[str, Any]]  # of one model, by seed: their seed and step


def answer(request: Request) -> Answer:
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
        return Answer(missing=[f"held-out tables: {error}"])
    if result is None:
        return Answer(missing=["held-out tables: not measured yet"])
    panel = replace(accuracy_panel(result), name="openml-accuracy")
    return Answer({"openml": result}, [panel], result["failed"])


def looped_less_standard(evidence: Evidence) -> Estimate:
    """The accuracy, looped less standard, the mean over held-out tables.

    The spread of tables holds that of each one's own draws, which alone is left of a single one."""
    differences, spreads, runs = _differences(evidence)
    errors = spreads if len(differences) == 1 else None
    return _of_runs(over_seeds(differences, errors, what="table"), runs, len(differences))


def share_of_tables_with_looped_above(evidence: Evidence) -> Estimate:
    """The share of held-out tables on which the looped model is more accurate than the standard
    one.

    The tables are given, and each difference is drawn from its normal distribution."""
    differences, spreads, runs = _differences(evidence)
    draws = np.random.default_rng(SEED).normal(differences, spreads, (RESAMPLES, len(differences)))
    low, high = np.percentile((draws > 0).mean(1), _ENDS)
    share = float(np.mean(np.greater(differences, 0)))
    estimate = Estimate(share, min(float(low), share), max(float(high), share), seeds=1)
    return _of_runs(estimate, runs, len(differences))


def _differences(evidence: Evidence) -> tuple[list[float], list[float], list[Runs]]:
    """The accuracy of each held-out table, looped less standard; its standard error; and the runs
    of both models."""
    differences = []
    spreads = []
    runs = []
    for table in evidence.result("openml")["tables"]:
        looped = table["models"].get("looped")
        standard = table["models"].get("standard")
        if looped is None or standard is None:
            continue
        runs += [looped["runs"], standard["runs"]]
        differences.append(looped["accuracy"]["mean"] - standard["accuracy"]["mean"])
        spreads.append(math.hypot(_error(looped["accuracy"]), _error(standard["accuracy"])))
    if not differences:
        raise NotMeasured("no table with a looped and a standard model")
    return differences, spreads, runs


def _of_runs(estimate: Estimate, runs: Sequence[Runs], tables: int) -> Estimate:
    """The estimate with the least number of seeds and steps, and the number of tables."""
    size = f"{tables} tables" if tables > 1 else "1 table"
    steps = min(run["step"] for run in chain(*runs))
    seeds = min(map(len, runs))
    note = "one seed" if seeds == 1 else ""
    return estimate._replace(seeds=seeds, steps=steps, size=size, note=note)


def _error(accuracy: Mapping[str, float]) -> float:
    """The standard error of an accuracy from its 90 % interval, or from its spread over draws."""
    if "low" in accuracy:
        return (accuracy["high"] - accuracy["low"]) / (2 * Z)
    return accuracy.get("std", 0.0)
