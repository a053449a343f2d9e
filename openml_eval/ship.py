"""Make a finished run an estimator's default checkpoint: its weights and its configuration.

print(ship_run(ShipSettings("runs/NAME", "classifier")))
"""

from __future__ import annotations

from pathlib import Path

from reloop.training.run_folder.ship import ship as ship_folder

from . import weights
from .settings import SHIPPED_CLASSES, ShipSettings


def ship(run: Path, name: str) -> Path:
    """Write openml_eval/checkpoints/<name>/ and return its path. ConfigError, before anything is
    written, for a folder that is no run, is damaged, or is of the other kind."""
    weights.read_model(run, SHIPPED_CLASSES[name])
    return ship_folder(run, weights.SHIPPED / name)


def ship_run(settings: ShipSettings) -> str:
    """As `ship`; returns a line on what was written."""
    folder = ship(Path(settings.run), settings.name)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return f"{folder}: {size:,} bytes"
