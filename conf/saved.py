"""The configuration of a run folder: from config.yaml, compared with the copy in every checkpoint.
No torch here.

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

_FALLBACK = "the configuration kept with the checkpoint is used"
_LARGEST = 2**20  # bytes of a config.yaml; ours have about two thousand


def read_config(folder: Path, say: Callable[[str], object] = lambda line: None) -> Config:
    """The configuration that the run in a folder was trained with; ConfigError where there is none
    that this version can read. See `read_mapping`."""
    return config_from_mapping(read_mapping(folder, say))


def read_mapping(
    folder: Path, say: Callable[[str], object] = lambda line: None
) -> Mapping[str, Any]:
    """The same as plain values, as written: absent keys take their default.

    Where config.yaml is missing or damaged, or no checkpoint has a copy of it, the copy in the
    newest intact checkpoint is returned, and `say` gets a line about it. A run of an earlier
    version has no such copy: its config.yaml is returned unchecked. Raises ConfigError where there
    is no configuration.
    """
    folder = unpacked(folder)
    path, copies = folder / "config.yaml", _copies(folder / "checkpoints")
    copy = copies[0] if copies else None
    try:
        mapping = _read_yaml(path)
    except ConfigError as error:
        if copy is None:
            raise
        say(f"{error}; {_FALLBACK}")
        return copy
    if copy is None or checksum_of(mapping) in map(checksum_of, copies):
        return mapping
    say(f"{path} was altered ({_differences(copy, mapping)}): {_FALLBACK}")
    return copy


def checkpoint_config(checkpoints: Path) -> Mapping[str, Any] | None:
    """The configuration in the newest checkpoint with an intact JSON; None where none has one."""
    copies = _copies(checkpoints)
    return copies[0] if copies else None


def _copies(checkpoints: Path) -> list[Mapping[str, Any]]:
    """The configurations in the checkpoints with an intact JSON, newest first."""
    copies: list[Mapping[str, Any]] = []
    for path in sorted(checkpoints.glob("[0-9]*.json"), reverse=True):
        try:
            facts = json.loads(path.read_text(encoding="utf-8"))
            checksum = facts.pop("checksum")
            if checksum == checksum_of(facts) and isinstance(facts["config"], dict):
                copies.append(facts["config"])
        except (OSError, ValueError, RecursionError, AttributeError, TypeError, KeyError):
            continue
    return copies


class _Loader(yaml.SafeLoader):
    """Plain values alone: no YAML aliases, which our configurations do not have and which can make
    a small file enormous."""

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


def _differences(copy: Mapping[str, Any], mapping: Mapping[str, Any]) -> str:
    """The settings that differ, at most three of them, as text."""
    copy_values, file_values = flatten(copy), flatten(mapping)
    keys = [
        key
        for key in {**copy_values, **file_values}
        if copy_values.get(key, "") != file_values.get(key, "")
    ]
    messages = [
        f"{key} is {file_values[key]}, was {copy_values.get(key)}"
        if key in file_values
        else f"{key} is missing"
        for key in keys[:3]
    ]
    return ", ".join(messages) + (f" and {len(keys) - 3} more" if len(keys) > 3 else "")
