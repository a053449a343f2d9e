"""Make a finished run the estimator's own checkpoint: its weights and what they came from.

print(ship_run(ShipSettings("runs/NAME", "classifier")))
"""

from __future__ import annotations

from pathlib import Path

from reloop.training.run_folder.ship import ship as ship_folder

from . import weights
from .settings import SHIPPED_CLASSES, ShipSettings


def ship(run: Path, name: str) -> Path:
    """Write openml_eval/checkpoints/<name>/ and give its path. ConfigError, and nothing is touched,
    for a run that is none, is damaged, or is of the other kind."""
    weights.read_model(run, SHIPPED_CLASSES[name])
    return ship_folder(run, weights.SHIPPED / name)


def ship_run(settings: ShipSettings) -> str:
    """The same, and what was written, for a user."""
    folder = ship(Path(settings.run), settings.name)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return f"{folder}: {size:,} bytes"
