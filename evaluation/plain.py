"""Results as dataclasses, and as the plain values that their JSON files hold.

content = evaluation.plain(); evaluation = Evaluation.read(content)
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar, Self, get_args, get_origin, get_type_hints


@dataclass(frozen=True, kw_only=True)
class Plain:
    """A result, or a part of one, whose fields are the keys of a JSON object.

    `REST` names the field with what the object has under other keys; without one they are dropped.
    """

    REST: ClassVar[str] = ""

    def plain(self) -> dict[str, Any]:
        """The JSON object; fields that are as by default are left out."""
        found = dict(getattr(self, self.REST)) if self.REST else {}
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name != self.REST and value != each.default:
                found[each.name] = _plain(value)
        return found

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> Self:
        """What `plain` gave, or an older file holds. Raises TypeError where a field is missing."""
        kinds = get_type_hints(cls)
        own = {each.name for each in fields(cls)} - {cls.REST}
        found = {name: _read(kinds[name], content[name]) for name in own & content.keys()}
        if cls.REST:
            found[cls.REST] = {name: content[name] for name in content if name not in own}
        return cls(**found)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    return value.plain() if isinstance(value, Plain) else value


def _read(kind: Any, value: Any) -> Any:
    """The value of a field of this type: a part, parts by name, or a plain value as it is."""
    parts = [each for each in (kind, *get_args(kind)) if is_dataclass(each)]
    if not parts:
        return value
    read = parts[0].read  # type: ignore[union-attr]
    if get_origin(kind) is Mapping:
        return {name: read(each) for name, each in value.items()}
    return read(value)
