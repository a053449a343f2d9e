"""Make a finished run the estimator's own checkpoint: its weights and what they came from.

python -m openml_eval.ship run=runs/NAME name=classifier
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from conf.checks import check_choice
from conf.command import run_command

_CLASSES = {"classifier": 2, "regressor": 0}
_HELP = """\
Put the newest weights of a run where LoopedClassifier() or LoopedRegressor() finds them.

  python -m openml_eval.ship run=runs/NAME name=classifier
  python -m openml_eval.ship run=runs/NAME name=regressor

Kept are the weights and the settings that they came from; what was there before is replaced.
"""


@dataclass(frozen=True)
class ShipSettings:
    """Which run becomes which of the two."""

    run: str
    name: str

    def check(self) -> None:
        """Raises ConfigError for a name that no estimator looks for."""
        check_choice("name", self.name, _CLASSES)


def ship(run: Path, name: str) -> Path:
    """Write openml_eval/checkpoints/<name>/ and give its path. ConfigError, and nothing is touched,
    for a run that is none, is damaged, or is of the other kind."""
    import yaml

    from conf.build import config_to_mapping
    from conf.schema import Config
    from training.checkpoint import newest_checkpoint, save_checkpoint
    from training.files import write_bytes

    from . import weights

    trained = weights.read_model(run, _CLASSES[name])
    checkpoint, _ = newest_checkpoint(run / "checkpoints")
    assert checkpoint is not None  # or read_model had said so
    folder = weights.SHIPPED / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    model = {key: value for key, value in checkpoint.tensors.items() if key.startswith("model.")}
    save_checkpoint(folder / "checkpoints", checkpoint.step, model)
    # Where, and beside what, it was trained and measured is no part of the weights.
    config, parts = trained.config, ("task", "model", "loops", "curriculum", "training", "seed")
    kept = Config(**{part: getattr(config, part) for part in parts})
    text = yaml.safe_dump(config_to_mapping(kept), sort_keys=False)
    write_bytes(folder / "config.yaml", text.encode())
    return folder


def _shipped(settings: ShipSettings) -> str:
    folder = ship(Path(settings.run), settings.name)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return f"{folder}: {size:,} bytes"


if __name__ == "__main__":
    sys.exit(run_command("ship", ShipSettings, sys.argv[1:], lambda: _HELP, _shipped))
