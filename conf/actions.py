"""What each action works on, and which settings it uses. No torch here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from .mistakes import ConfigError
from .schema import Action, Config


@dataclass(frozen=True)
class Command:
    """One command. `paths` are the run folders or the file that it works on; `words` are the words
    of this member of a grid, for messages. `given` are the settings of an import by key, whose
    other settings are in its file. `again`: an earlier training is set aside first. `together`:
    whether members of a grid are trained together, "auto" where that is known to be faster."""

    action: Action
    paths: tuple[str, ...]
    config: Config
    words: tuple[str, ...]
    given: Mapping[str, Any] = field(default_factory=dict)
    again: bool = False
    together: bool | Literal["auto"] = False


class _ActionRule(NamedTuple):
    """The key that names an action's subject, the message where it is missing, the settings that
    the action uses (groups with all their settings), and why it uses no others."""

    key: str
    missing_message: str
    settings: tuple[str, ...]
    reason: str


# Where the data of a run are today.
DATA = ("task.text", "task.held_out_text", "task.data_dir")
_ACTIONS = {
    "evaluate": _ActionRule(
        "run",
        "must name the run folder to evaluate: run=runs/<name>",
        ("device", "plugins", "evaluation", "figures", "tables", "task.eval", *DATA),
        "it measures a run as it was trained, in fp32",
    ),
    "compare": _ActionRule(
        "runs",
        "must name the run folders to compare: 'runs=[runs/<name>,runs/<name>]'",
        (
            *("device", "plugins", "folder"),
            *(f"evaluation.{name}" for name in ("prompts", "seed", "batch_size", "resamples")),
            *(
                f"evaluation.{name}"
                for name in ("loops", "halt_on", "tolerance", "halt_by", "max_loops")
            ),
            *("evaluation.baselines", "figures", "tables"),
        ),
        "it measures runs as they were trained, on the prompts of their task",
    ),
    "import": _ActionRule(
        "checkpoint",
        "must name the file to import: checkpoint=…/state.pt",
        ("folder", "task", "model", "loops.b", "loops.T", "training.steps"),
        "the checkpoint is as it was trained",
    ),
}
# The subjects' keys with their empty values.
SUBJECTS: dict[str, Any] = {"run": "", "runs": [], "checkpoint": ""}


def subject(action: str, values: Mapping[str, Any], keys: Sequence[str]) -> tuple[str, ...]:
    """The paths that an action works on: none for a run to train, which is found by its settings.

    `values` holds the values of `SUBJECTS`, `keys` every key on the command line. Raises
    ConfigError where the subject is missing, for another action's subject and for a setting that
    the action does not use.
    """
    rule = _ACTIONS.get(action)
    for key in keys:
        if key in SUBJECTS and (rule is None or key != rule.key):
            other = next(name for name, other_rule in _ACTIONS.items() if other_rule.key == key)
            raise ConfigError(key, f"is for action={other}")
    if rule is None:
        return ()
    allowed = {"action", rule.key, *rule.settings}
    for key in keys:
        if key not in allowed and key.partition(".")[0] not in allowed:
            raise ConfigError(key, f"has no meaning with action={action}: {rule.reason}")
    value = values[rule.key]
    if not value:
        raise ConfigError(rule.key, rule.missing_message)
    if action != "compare" and not isinstance(value, str | int):
        raise ConfigError(rule.key, f"must name one path, got {value}")
    paths = tuple(map(str, value)) if isinstance(value, list) else (str(value),)
    if action == "compare" and len(paths) < 2:
        raise ConfigError("runs", f"must name at least two run folders, got {len(paths)}")
    return paths
