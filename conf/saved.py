"""The configuration that a run folder was made with. No torch here.

config = read_config(Path("runs/NAME"))
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from .build import config_from_mapping
from .mistakes import ConfigError, one_line
from .schema import Config
from .shipped import unpacked

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # a tenth of the time, if it was compiled


def read_config(folder: Path) -> Config:
    """The configuration of the run in a folder; ConfigError where there is none that this version
    can read."""
    return config_from_mapping(read_mapping(folder))


def read_mapping(folder: Path) -> Mapping[str, Any]:
    """The same as plain values, as written: absent keys take their default. Whether the weights are
    of these settings is for the checkpoint to say, which has a copy. Raises ConfigError where there
    is no configuration."""
    path = unpacked(folder) / "config.yaml"
    try:
        mapping = yaml.load(path.read_text(encoding="utf-8"), _LOADER)
    except (FileNotFoundError, NotADirectoryError):
        raise ConfigError(f"{path.parent}", "is no run folder: it holds no config.yaml") from None
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        raise ConfigError(f"{path}", f"cannot be read: {one_line(error)}") from None
    if not isinstance(mapping, dict):
        raise ConfigError(f"{path}", "cannot be read: it holds no settings")
    return mapping
