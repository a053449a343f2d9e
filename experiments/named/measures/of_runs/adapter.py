"""A measure of trained runs, kept under what it was measured from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from reloop.conf.schema import EvaluationConfig
from reloop.evaluation import load_run, snapshots_of
from reloop.evaluation.artefacts import Artefacts
from reloop.evaluation.measure import weights_digest
from reloop.training.run_folder.run import Run
from reloop.training.run_folder.sources import EVALUATED, sources_of

from ....claims.judge import why_unfinished
from ..request import Measurement, Request
from .common import Missing

# What a measure's numbers depend on besides its module and the model: followed where it imports it.


class MeasureModule(Protocol):
    """The function of a module of this folder."""

    def measure(self, runs: Sequence[Run], settings: EvaluationConfig) -> Mapping[str, Any]:
        """What is found, a TypedDict of plain values, its pictures under `panels`."""


def measure(name: str, request: Request) -> Measurement:
    """The result of the module of this name for the request's runs: the stored one, or measured
    now. Raises ConfigError for runs that it cannot measure."""
    members = [run for run in request.runs if not why_unfinished(run)]
    if not members:
        return Measurement()
    module = f"{__package__}.{name}"
    runs = [load_run(run.path) for run in members]
    settings = members[0].config.evaluation
    key = {
        "runs": [
            [str(run.path.name), run.step, weights_digest(run.model), *snapshots_of(run.path)]
            for run in runs
        ],
        "settings": asdict(settings),
        "sources": sources_of(*EVALUATED, "probing", "experiments/named/measures"),
    }
    artefacts = Artefacts(Path(request.folder) / "experiments" / "measures", "measure", name=name)
    result = artefacts.find(key)
    if result is None and request.stored_only:
        return Measurement(missing=(f"{name}: not measured yet of these runs",))
    if result is None:
        try:
            found = cast(MeasureModule, import_module(module)).measure(runs, settings)
        except Missing as lack:
            return Measurement(missing=(f"{name}: {lack}",))
        result = artefacts.keep(key, {"result": found})
    return Measurement({name: result["result"]}, result["result"]["panels"])
