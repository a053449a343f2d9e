"""Results as dataclasses, and as the plain values that their JSON files hold.

content = evaluation.plain(); evaluation = Evaluation.read(content)
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self, get_args, get_origin

Content = Mapping[str, Any]  # an object of a JSON file, as it was read
Fields = dict[str, Any]  # such an object, or arguments, in the making


@dataclass(frozen=True, kw_only=True)
class Plain:
    """A result, or a part of one, whose fields are the keys of a JSON object.

    `REST` names the field with what the object has under other keys; without one they are dropped.
    """

    REST: ClassVar[str] = ""

    def plain(self) -> Fields:
        """The JSON object; fields that are as by default are left out."""
        plain = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if value != field.default:
                plain[field.name] = _plain(value)
        rest = plain.pop(self.REST, {})
        return plain | rest

    @classmethod
    def read(cls, content: Content) -> Self:
        """What `plain` gave, or an older file holds. Raises TypeError where a field is missing."""
        values = {}
        for field in fields(cls):
            if field.name in content:
                values[field.name] = _read(field.type, content[field.name])
        if cls.REST:
            values[cls.REST] = {name: content[name] for name in content if name not in values}
        return cls(**values)


def part_of(kind: type[Any], whole: object) -> Fields:
    """The fields of a base class, by name, as another of its children takes them."""
    return {field.name: getattr(whole, field.name) for field in fields(kind)}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(entry) for name, entry in value.items()}
    return value.plain() if isinstance(value, Plain) else value


def _read(kind: Any, value: Any) -> Any:
    """The value of a field of this type: a part, parts by name, or a plain value as it is."""
    # Of `Mapping[str, ShiftErrors]` and `Texts | None` the class within.
    for class_ in (kind, *get_args(kind)):
        if not hasattr(class_, "read"):
            continue
        if get_origin(kind) is Mapping:
            return {name: class_.read(entry) for name, entry in value.items()}
        return class_.read(value)
    return value
