"""Results as dataclasses, and as the plain values that their JSON files hold.

content = evaluation.plain(); evaluation = Evaluation.read(content)
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self, get_args, get_origin


@dataclass(frozen=True, kw_only=True)
class Plain:
    """A result, or a part of one, whose fields are the keys of a JSON object.

    `REST` names the field with what the object has under other keys; without one they are dropped.
    """

    REST: ClassVar[str] = ""

    def plain(self) -> dict[str, Any]:
        """The JSON object; fields that are as by default are left out."""
        values = vars(self)
        found = {
            each.name: _plain(values[each.name])
            for each in fields(self)
            if values[each.name] != each.default
        }
        rest = found.pop(self.REST, {})
        return found | rest

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> Self:
        """What `plain` gave, or an older file holds. Raises TypeError where a field is missing."""
        own = {
            each.name: _read(each.type, content[each.name])
            for each in fields(cls)
            if each.name in content
        }
        if cls.REST:
            own[cls.REST] = {name: content[name] for name in content if name not in own}
        return cls(**own)


def part_of(kind: type[Any], whole: object) -> dict[str, Any]:
    """The fields of a base class, by name, as another of its children takes them."""
    return {each.name: getattr(whole, each.name) for each in fields(kind)}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    return value.plain() if isinstance(value, Plain) else value


def _read(kind: Any, value: Any) -> Any:
    """The value of a field of this type: a part, parts by name, or a plain value as it is."""
    parts = [each for each in (kind, *get_args(kind)) if hasattr(each, "read")]
    if not parts:
        return value
    if get_origin(kind) is Mapping:
        return {name: parts[0].read(each) for name, each in value.items()}
    return parts[0].read(value)
