"""What each action is about, and which settings have a part in it. No torch and no Hydra here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .mistakes import ConfigError


class _About(NamedTuple):
    """The key that names an action's subject, what is said where it is missing, the settings that
    have a part in it (with all under them), and why no others have."""

    key: str
    missing: str
    settings: tuple[str, ...]
    why: str


_ABOUT = {
    "evaluate": _About(
        "run",
        "must name the run folder to evaluate: run=runs/<name>",
        ("device", "plugins", "evaluation"),
        "it measures a run as it was trained, in fp32",
    ),
    "compare": _About(
        "runs",
        "must name the run folders to compare: 'runs=[runs/<name>,runs/<name>]'",
        (
            *("device", "plugins", "folder"),
            *(f"evaluation.{name}" for name in ("prompts", "seed", "batch_size", "resamples")),
            *(
                f"evaluation.{name}"
                for name in ("loops", "halt_on", "tolerance", "halt_by", "max_loops")
            ),
            "evaluation.baselines",
        ),
        "it measures runs as they were trained, on the prompts of their task",
    ),
    "import": _About(
        "checkpoint",
        "must name the file to import: checkpoint=…/state.pt",
        ("folder", "task", "model", "loops.b", "loops.T", "training.steps"),
        "the checkpoint is as it was trained",
    ),
}
# The subjects' keys, and what stands there where nothing is named.
SUBJECTS: dict[str, Any] = {"run": "", "runs": [], "checkpoint": ""}


def subject(action: str, named: Mapping[str, Any], given: Sequence[str]) -> tuple[str, ...]:
    """The paths that an action is about: none for a run to train, which is found by its settings.

    `named` holds the values of `SUBJECTS`, `given` every key on the command line. Raises
    ConfigError where the subject is missing, or another's or a setting without a part is given.
    """
    about = _ABOUT.get(action)
    for key in given:
        if key in SUBJECTS and (about is None or key != about.key):
            other = next(name for name, each in _ABOUT.items() if each.key == key)
            raise ConfigError(key, f"is for action={other}")
    if about is None:
        return ()
    allowed = {"action", about.key, *about.settings}
    for key in given:
        if key not in allowed and key.partition(".")[0] not in allowed:
            raise ConfigError(key, f"has no meaning with action={action}: {about.why}")
    value = named[about.key]
    if not value:
        raise ConfigError(about.key, about.missing)
    if action != "compare" and not isinstance(value, str | int):
        raise ConfigError(about.key, f"must name one path, got {value}")
    paths = tuple(map(str, value)) if isinstance(value, list) else (str(value),)
    if action == "compare" and len(paths) < 2:
        raise ConfigError("runs", f"must name at least two run folders, got {len(paths)}")
    return paths
