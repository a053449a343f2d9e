"""What a measurement is asked and what it answers, and the measures of trained runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from looplab.conf.mistakes import ConfigError
from looplab.evaluation import load_run, snapshots_of
from looplab.evaluation.kept import found, kept
from looplab.evaluation.measure import weights_digest
from looplab.evaluation.panel import Panel
from looplab.training.run_folder.sources import EVALUATED, sources_of

from ...claims.claim import Measured
from ...claims.judge import why_unfinished
from .of_runs.common import Missing


@dataclass(frozen=True)
class Request:
    """The settings of an experiment at a scale for its measurement (`settings` of its file, one
    mapping for each measurement to make), its finished runs, the folder of all runs, and the
    number of processes (None: one a core). With `stored_only` nothing is computed that takes long:
    only what is stored is read."""

    settings: Sequence[Mapping[str, Any]]
    runs: Sequence[Measured]
    folder: str
    processes: int | None = None
    stored_only: bool = False

    def only_settings(
        self, of: str, *decided: str, why: str = "its command decides it"
    ) -> dict[str, Any]:
        """The settings of what is measured once; ConfigError for several, and for one of those that
        are decided elsewhere."""
        if len(self.settings) != 1:
            raise ConfigError("settings", f"must be one for {of}, got {len(self.settings)}")
        return own_settings(self.settings[0], *decided, why=why)


def own_settings(
    entry: Mapping[str, Any], *decided: str, why: str = "its command decides it"
) -> dict[str, Any]:
    """An entry of the settings; ConfigError for one of those that are decided elsewhere."""
    for key in decided:
        if key in entry:
            raise ConfigError(key, f"is not for an experiment's file: {why}")
    return dict(entry)


@dataclass(frozen=True)
class Measurement:
    """The results by name, for claims (`Evidence.results`), pictures as numbers, and what is
    missing, a line each."""

    results: Mapping[str, Any] = field(default_factory=dict)
    panels: Sequence[Panel] = ()
    missing: Sequence[str] = ()


def measure_runs(name: str, request: Request) -> Measurement:
    """What the module of this name in of_runs/ measures in the request's runs: the stored result,
    or that of now. Raises ConfigError for runs that it cannot measure."""
    members = [run for run in request.runs if not why_unfinished(run)]
    if not members:
        return Measurement()
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
    folder = Path(request.folder) / "experiments" / "measures" / name

    def compute() -> tuple[Mapping[str, object], None]:
        result = import_module(f"{__package__}.of_runs.{name}").measure(runs, settings)
        panels = [panel.plain() for panel in result["panels"]]
        return {"result": {**result, "panels": panels}}, None

    if request.stored_only and found(folder, "measure", key) is None:
        return Measurement(missing=(f"{name}: not measured yet of these runs",))
    try:
        result = kept(folder, "measure", key, compute)["result"]
    except Missing as lack:
        return Measurement(missing=(f"{name}: {lack}",))
    return Measurement({name: result}, [Panel.read(panel) for panel in result["panels"]])
