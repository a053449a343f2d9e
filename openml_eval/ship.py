"""Make a finished run the estimator's own checkpoint: its weights and what they came from.

print(ship_run(ShipSettings("runs/NAME", "classifier")))
"""

from __future__ import annotations

import shutil
from pathlib import Path

import yaml

from conf.build import config_to_mapping
from conf.schema import Config
from training.checkpoint import newest_checkpoint, save_checkpoint
from training.files import write_bytes

from . import weights
from .settings import SHIPPED_CLASSES, ShipSettings

_KEPT = ("task", "model", "loops", "curriculum", "training", "seed")


def ship(run: Path, name: str) -> Path:
    """Write openml_eval/checkpoints/<name>/ and give its path. ConfigError, and nothing is touched,
    for a run that is none, is damaged, or is of the other kind."""
    trained = weights.read_model(run, SHIPPED_CLASSES[name])
    checkpoint, _ = newest_checkpoint(run / "checkpoints")
    assert checkpoint is not None  # or read_model had said so
    folder = weights.SHIPPED / name
    beside = folder.with_name(f"{name}.partial")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    model = {key: value for key, value in checkpoint.tensors.items() if key.startswith("model.")}
    # Where, and beside what, it was trained and measured is no part of the weights.
    kept = config_to_mapping(Config(**{part: getattr(trained.config, part) for part in _KEPT}))
    save_checkpoint(beside / "checkpoints", checkpoint.step, model, kept)
    write_bytes(beside / "config.yaml", yaml.safe_dump(kept, sort_keys=False).encode())
    shutil.rmtree(folder, ignore_errors=True)
    beside.rename(folder)
    return folder


def ship_run(settings: ShipSettings) -> str:
    """The same, and what was written, for a user."""
    folder = ship(Path(settings.run), settings.name)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return f"{folder}: {size:,} bytes"
