"""The target errors, by scale and task. No torch here."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from reloop.conf.mistakes import ConfigError

from .settings import QualitySettings

_FILE = Path(__file__).with_name("targets.json")


class Target(NamedTuple):
    """An error over the variance of y (or an error rate), averaged over numbers of examples k."""

    error: float
    k: tuple[int, ...]


@lru_cache
def known_targets() -> dict[tuple[str, str], Target]:
    """The targets of targets.json by scale and task."""
    mapping = json.loads(_FILE.read_text(encoding="utf-8"))
    return {
        (scale, task): Target(float(entry["error"]), tuple(entry["k"]))
        for scale, tasks in mapping.items()
        for task, entry in tasks.items()
    }


def target_of(settings: QualitySettings) -> Target:
    """The target of a race; ConfigError if neither settings nor file give one."""
    default = known_targets().get((settings.scale, settings.task))
    error = settings.target if settings.target is not None else default and default.error
    k = settings.k or (default and default.k)
    suffix = f"for task={settings.task} at scale={settings.scale}"
    if error is None:
        raise ConfigError("target", f"must be given: targets.json has none {suffix}")
    if not k:
        raise ConfigError("k", f"must be given: targets.json has none {suffix}")
    return Target(error, tuple(k))


def targets_table() -> str:
    """The targets of targets.json, one line each."""
    return "\n".join(
        f"  {scale:7} {task:15} {target.error:<8g} at k = {', '.join(map(str, target.k))}"
        for (scale, task), target in known_targets().items()
    )
