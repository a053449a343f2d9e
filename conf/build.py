"""Turn plain mappings (from YAML or the command line) into a checked `Config`, and back."""

import types
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass, replace
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from .checks.config import check_config, typed_settings
from .mistakes import ConfigError, check_choice, nearest_key
from .plugins import added_names, load_plugins, of_a_plugin
from .schema import SCHEMA_VERSION, Config
from .setting import KINDS, hints_of
from .setting import convert_scalar as convert_scalar

_T = TypeVar("_T")

# Settings of earlier versions, in the config.yaml of old runs.
_REMOVED = {"training": ("on_divergence",), "evaluation": ("questions", "shots")}


def config_from_mapping(mapping: Mapping[str, Any]) -> Config:
    """Build and check a Config; keys left out take their default.

    Raises ConfigError, naming the key, for an unknown key, a value of the wrong type or a
    combination that cannot run.
    """
    values = dict(mapping)
    version = values.pop("schema_version", SCHEMA_VERSION)
    # Not isinstance: `schema_version: true` is an int to Python.
    if type(version) is not int or version > SCHEMA_VERSION:
        raise ConfigError(
            "schema_version", f"is {version}, but this version reads up to {SCHEMA_VERSION}"
        )
    for group, names in _REMOVED.items():
        if isinstance(settings := values.get(group), Mapping):
            values[group] = {key: value for key, value in settings.items() if key not in names}
    # Before names are checked, as plugins add tasks, loops and baselines.
    load_plugins(_convert(tuple[str, ...], values.get("plugins", ()), "plugins"))
    config = build(Config, values)
    settings = typed_settings(config.task.name, config.task.settings)
    config = replace(config, task=replace(config.task, settings=settings))
    check_config(config)
    return config


def config_to_mapping(config: Config) -> dict[str, Any]:
    """A complete Config as plain values, with the schema's version."""
    return {"schema_version": SCHEMA_VERSION, **_plain(config)}


def flatten(mapping: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one, its keys joined by dots."""
    flat: dict[str, Any] = {}
    for key, value in mapping.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def build(cls: type[_T], mapping: Mapping[str, Any], prefix: str = "") -> _T:
    """An instance of the dataclass `cls`, every value checked against its type; ConfigError."""
    assert is_dataclass(cls)
    if not isinstance(mapping, Mapping):
        raise ConfigError(prefix.rstrip("."), f"must be a group of settings, got {mapping!r}")
    hints = hints_of(cls)
    settings = {field.name: field for field in fields(cls)}
    for key in mapping:
        if key not in settings:
            raise ConfigError(
                f"{prefix}{key}", f"is not a setting{nearest_key(str(key), settings)}"
            )
    for name, field in settings.items():
        has_default = field.default is not MISSING or field.default_factory is not MISSING
        if name not in mapping and not has_default:
            raise ConfigError(f"{prefix}{name}", "must be given")
    return cls(**{k: _convert(hints[k], v, f"{prefix}{k}") for k, v in mapping.items()})


def _convert(kind: Any, value: Any, key: str) -> Any:
    """`value` as the annotated type `kind`, or a ConfigError that says what was expected."""
    origin = get_origin(kind)
    arguments = get_args(kind)
    if is_dataclass(kind):
        return build(kind, value, f"{key}.")  # type: ignore[arg-type]
    if origin in (types.UnionType, Union):
        return _convert_one_of(arguments, value, key)
    if origin is Literal:
        check_choice(key, value, (*arguments, *added_names(key)), of_a_plugin)
        return value
    if origin is tuple:
        items = value if isinstance(value, list | tuple) else [value]
        return tuple(_convert(arguments[0], item, key) for item in items)
    if origin is not None:  # Mapping[str, Any]
        if not isinstance(value, Mapping):
            raise ConfigError(key, f"must be a group of settings, got {value!r}")
        return dict(value)
    return convert_scalar(kind, value, key)


def _convert_one_of(kinds: tuple[Any, ...], value: Any, key: str) -> Any:
    """`value` as None, a word or a value of the one remaining kind, where these are allowed."""
    # Words and None first: `auto` must not be tried as a number.
    words = [word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)]
    words += added_names(key) if words else []
    if value in words or (value is None and type(None) in kinds):
        return value
    value_kinds = [
        kind for kind in kinds if kind is not type(None) and get_origin(kind) is not Literal
    ]
    if not value_kinds:  # a name or nothing
        check_choice(key, value, words)
    if len(value_kinds) == 1 and not words:
        return _convert(value_kinds[0], value, key)
    # In the order of the annotation: 720 is a number, where numbers are allowed, and no text.
    for kind in value_kinds:  # int | str
        with suppress(ConfigError):
            return _convert(kind, value, key)
    options = " or ".join([*(KINDS[kind] for kind in value_kinds), *words])
    raise ConfigError(key, f"must be {options}, got {value!r}")


def _plain(value: Any) -> Any:
    """Dataclasses as mappings and tuples as lists, for YAML and JSON."""
    if is_dataclass(value):
        return {item.name: _plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def setting_of(config: Config, key: str) -> Any:
    """A setting's value, by its key on the command line; a family for `model`."""
    flat = flatten(config_to_mapping(config))
    short = {"task": "task.name", "model": "model.family"}.get(key, key)
    group, _, name = short.partition(".")
    # A task's own settings stand a section deeper than they are typed.
    for candidate in (short, f"{group}.settings.{name}"):
        if candidate in flat:
            return flat[candidate]
    raise ConfigError("experiment", f"names {key}, which is not a setting")
