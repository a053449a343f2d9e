"""What a measurement is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...claims.claim import Measured
from ..results import Panel


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


@dataclass(frozen=True)
class Measurement:
    """The results by name, for claims (`Evidence.results`), pictures as numbers, and what is
    missing, a line each."""

    results: Mapping[str, Any] = field(default_factory=dict)
    panels: Sequence[Panel] = ()
    missing: Sequence[str] = ()
