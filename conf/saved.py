"""The configuration that a run folder was made with: from config.yaml, held against the copy that
every checkpoint carries. No torch here.

config = read_config(Path("runs/NAME"))
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from .build import config_from_mapping, flatten
from .checksum import checksum_of
from .mistakes import ConfigError, one_line
from .schema import Config
from .shipped import unpacked

_TAKEN = "the configuration kept with the checkpoint is used"
_LARGEST = 2**20  # bytes of a config.yaml; ours have some two thousand


def read_config(folder: Path, say: Callable[[str], object] = lambda line: None) -> Config:
    """The configuration that the run in a folder was trained with; ConfigError where there is none,
    or none that this version can read. See `read_mapping`."""
    return config_from_mapping(read_mapping(folder, say))


def read_mapping(
    folder: Path, say: Callable[[str], object] = lambda line: None
) -> Mapping[str, Any]:
    """The same as plain values, as they were written: keys that it lacks take their default.

    Where config.yaml is missing or damaged, or no checkpoint has a copy of it, the copy in the
    newest intact checkpoint is taken, and `say` is given a line on it. A run of an earlier version
    has no such copy: its config.yaml is taken as it is. Raises ConfigError where there is no
    configuration.
    """
    folder = unpacked(folder)
    path, copies = folder / "config.yaml", _copies(folder / "checkpoints")
    kept = copies[0] if copies else None
    try:
        mapping = _read_yaml(path)
    except ConfigError as error:
        if kept is None:
            raise
        say(f"{error}; {_TAKEN}")
        return kept
    if kept is None or checksum_of(mapping) in map(checksum_of, copies):
        return mapping
    say(f"{path} was altered ({_differences(kept, mapping)}): {_TAKEN}")
    return kept


def checkpoint_config(checkpoints: Path) -> Mapping[str, Any] | None:
    """The configuration in the newest checkpoint whose JSON is intact; None where none has one."""
    copies = _copies(checkpoints)
    return copies[0] if copies else None


def _copies(checkpoints: Path) -> list[Mapping[str, Any]]:
    """The configurations in the checkpoints whose JSON is intact, the newest first."""
    found: list[Mapping[str, Any]] = []
    for path in sorted(checkpoints.glob("[0-9]*.json"), reverse=True):
        try:
            facts = json.loads(path.read_text(encoding="utf-8"))
            checksum = facts.pop("checksum")
            if checksum == checksum_of(facts) and isinstance(facts["config"], dict):
                found.append(facts["config"])
        except (OSError, ValueError, RecursionError, AttributeError, TypeError, KeyError):
            continue
    return found


class _Loader(yaml.SafeLoader):
    """Plain values alone: no references from one part of a file to another, which no configuration
    of ours has and which can make a small file enormous."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("it holds a reference (*name)")
        return super().compose_node(parent, index)


def _read_yaml(path: Path) -> Mapping[str, Any]:
    try:
        with open(path, "rb") as file:
            content = file.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            raise yaml.YAMLError("it is larger than any configuration")
        mapping = yaml.load(content.decode(), _Loader)
        checksum_of(mapping)  # plain values can be written as JSON
    except (FileNotFoundError, NotADirectoryError):
        raise ConfigError(f"{path.parent}", "is no run folder: it holds no config.yaml") from None
    except RecursionError:
        raise ConfigError(f"{path}", "cannot be read: it is nested too deeply") from None
    except (OSError, ValueError, TypeError, yaml.YAMLError) as error:
        problem = one_line(error)
        raise ConfigError(f"{path}", f"cannot be read: {problem}") from None
    if not isinstance(mapping, dict):
        raise ConfigError(f"{path}", "cannot be read: it holds no settings")
    return mapping


def _differences(kept: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """The settings that differ, at most three of them."""
    trained, read = flatten(kept), flatten(found)
    keys = [key for key in {**trained, **read} if trained.get(key, "") != read.get(key, "")]
    told = [
        f"{key} is {read[key]}, was {trained.get(key)}" if key in read else f"{key} is missing"
        for key in keys[:3]
    ]
    return ", ".join(told) + (f" and {len(keys) - 3} more" if len(keys) > 3 else "")
