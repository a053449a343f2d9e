"""The actions of run.py: what each works on, and which settings it uses. No torch here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .mistakes import ConfigError
from .schema import Action, Config


@dataclass(frozen=True)
class Command:
    """One command. `paths` are the run folders or the file that it works on; `words` are the words
    of this member of a grid, for messages. `given` are the settings of an import by key, whose
    other settings are in its file. `again`: an earlier training is set aside first."""

    action: Action
    paths: tuple[str, ...]
    config: Config
    words: tuple[str, ...]
    given: Mapping[str, Any] = field(default_factory=dict)
    again: bool = False


# Where the data of a run are today.
DATA = ("task.text", "task.held_out_text", "task.data_dir")
# The keys of what actions work on, with their empty values.
SUBJECTS: dict[str, Any] = {"run": "", "runs": [], "checkpoint": ""}
_EXAMPLES = {  # by action: the key of its subject, and how it is given
    "evaluate": ("run", "run=runs/<name>"),
    "compare": ("runs", "runs=runs/<name>,runs/<name>"),
    "import": ("checkpoint", "checkpoint=…/state.pt"),
}
_TAKEN_BY = {  # by key: the actions of all commands that take it
    "run": "evaluate, core, export, generate or play",
    "runs": "compare or report",
    "checkpoint": "import",
}
_TO_TRAIN_ON = (
    "; a run's own command, given again, resumes it; training.start_from=runs/<name> begins a new "
    "training with its weights"
)
_COMPARED = (
    "prompts",
    "seed",
    "batch_size",
    "resamples",
    "loops",
    "halt_on",
    "tolerance",
    "halt_by",
    "max_loops",
    "baselines",
    "normalise",
)
# By action: the settings that it uses, groups whole.
_USED = {
    "evaluate": {"device", "plugins", "evaluation", "figures", "tables", "task.eval"} | set(DATA),
    "compare": {"device", "plugins", "folder", "figures", "tables"}
    | {f"evaluation.{name}" for name in _COMPARED},
    "import": {"folder", "task", "model", "loops.b", "loops.T", "training.steps"},
}
_WHY_NO_OTHERS = {
    "evaluate": "it measures a run as it was trained, in fp32",
    "compare": "it measures runs as they were trained, on the prompts of their task",
    "import": "the checkpoint is as it was trained",
}


def subject(action: str, values: Mapping[str, Any], keys: Sequence[str]) -> tuple[str, ...]:
    """The paths that an action works on: none for a run to train, which is found by its settings.

    `values` holds the values of `SUBJECTS`, `keys` every key on the command line. Raises
    ConfigError where the subject is missing, for another action's subject and for a setting that
    the action does not use.
    """
    subject_key, example = _EXAMPLES.get(action, ("", ""))
    for key, takers in _TAKEN_BY.items():
        if key in keys and key != subject_key:
            instead = _TO_TRAIN_ON if key == "run" else ""
            if subject_key:
                instead = f"; action={action} takes {example}"
            raise ConfigError(key, f"is for action={takers}{instead}")
    if not subject_key:
        return ()
    value = values[subject_key]
    if not value:
        where = "" if subject_key == "checkpoint" else "; action=list shows the runs"
        raise ConfigError(subject_key, f"must name what to {action}: {example}{where}")
    allowed = _USED[action] | {"action", subject_key}
    for key in keys:
        # A group's name stands for all of its settings.
        if key not in allowed and key.split(".")[0] not in allowed:
            reason = _WHY_NO_OTHERS[action]
            raise ConfigError(key, f"has no meaning with action={action}: {reason}")
    paths = tuple(map(str, value)) if isinstance(value, list) else (str(value),)
    if action == "compare" and len(paths) < 2:
        raise ConfigError("runs", f"must name at least two run folders, got {len(paths)}")
    return paths
