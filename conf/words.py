"""Words `key=value` as values, and as the checked settings of a small command. No torch here.

settings = settings_from_words(DynamicsSettings, ["run=runs/NAME", "loops=200"])
"""

import re
import shlex
import sys
from collections.abc import Collection, Mapping, Sequence
from os.path import expanduser
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

import yaml

from .build import build
from .files import read_yaml
from .mistakes import ConfigError
from .setting import all_settings

_T = TypeVar("_T")

_ITEM = re.compile(r"""\s*((?:"[^"]*"|'[^']*'|\[[^\]]*\]|\{[^}]*\}|[^,])*?)\s*(?:,|$)""")
_QUOTED = re.compile(r"""(["'])(.*)\1""", re.DOTALL)
# A setting as other programs take it, at the start of a command: --task=linear, --task linear,
# task = linear, task:linear, "task=linear". The value has no "=", or it is the next word.
_OTHERWISE = re.compile(r"""["']?(-*)([a-zA-Z_][\w.-]+)(\s*[=:]\s*|\s+)(?!\S*=)(\S+)""")
# What text editors and browsers make of quotes, dashes and signs.
_TYPED = str.maketrans("“”‘’＝：‐‑–—−", "\"\"''=:-----")


def settings_from_words(cls: type[_T], words: Sequence[str]) -> _T:
    """An instance of the dataclass `cls` with the values of the words, texts as they were typed;
    other fields take their default.

    Raises ConfigError, naming the key, for a word that is not of the form key=value or given twice.
    So it does for an unknown or missing key, and a value of the wrong type.
    """
    check_words(words)
    hints = {key: item.hint for key, item in all_settings(cls).items()}
    values = {}
    for word in words:
        key, _, text = word.partition("=")
        values[key] = read_value(key, text, hints.get(key))
        if "" in (values[key] if isinstance(values[key], list) else [values[key]]):
            raise ConfigError(key, "must name something, got ''")
    return build(cls, nested(values))


def check_words(words: Sequence[object], hint: str = "", actions: Collection[str] = ()) -> None:
    """Raises ConfigError for a word that is not key=value, and for a key that has no value or is
    given twice. `hint` helps where none of the known slips is seen."""
    keys: set[str] = set()
    for index, word in enumerate(words):
        if not isinstance(word, str):
            problem = f"must be a text, as 'task=linear', and a list of them *words; got {word!r}"
            raise ConfigError("a word", problem)
        meant = _meant(word, words[index + 1 :], actions)
        question = f"; did you mean {meant}?" if meant else ""
        if not re.match(r"[a-zA-Z_][\w.-]*=", word):
            raise ConfigError(repr(word), f"is not of the form key=value{question or hint}")
        key, _, value = word.partition("=")
        if key in keys:
            raise ConfigError(key, "is given twice")
        if not value.strip():
            raise ConfigError(
                key, "has no value" + (question or "; key=null says that there is none")
            )
        keys.add(key)


def _meant(word: str, following: Sequence[object], actions: Collection[str]) -> str:
    """What was meant by a word that is none, before others; '' where that does not show."""
    if word in actions:
        return f"action={word}"
    if word == "help":
        return "--help"
    typed = word.translate(_TYPED)
    # With what follows, as in `task = linear`, which a shell has split into three.
    match = _OTHERWISE.match(" ".join([typed, *map(str, following)]))
    if match:
        dashes, key, sign, value = match.groups()
        if dashes or sign.strip():
            return key + "=" + value.strip("\"',")
    return typed if typed != word else ""


def read_value(key: str, text: str, hint: Any) -> Any:
    """The value of a word for a setting of this type (None where it is not known): YAML, but a text
    as it was typed, without quotes around it, its ~ expanded, and a list with brackets or without.
    Raises ConfigError for a value that cannot be read."""
    quoted = _QUOTED.fullmatch(text)
    try:
        if not is_text(hint):
            if quoted and not is_list(hint):  # quotes that the shell has left
                text = quoted[2]
            # a,b is [a,b]; the check of a value's presence has come before (check_words).
            bare = is_list(hint) and text[0] != "[" and text != "null"
            return read_yaml(f"[{text}]" if bare else text)
        if type(None) in get_args(hint) and text == "null":
            return None
        return [_text(hint, item) for item in items(text)] if is_list(hint) else _text(hint, text)
    except (yaml.YAMLError, ValueError):
        raise ConfigError(f"'{key}={text}'", "cannot be read; lists are key=1,2") from None


def items(text: str) -> list[str]:
    """The items of `[a,"b, c"]`, or of `a,b`: as typed, with their quotes and inner brackets.
    Raises ValueError for a bracket that is not closed."""
    if text.startswith("["):
        if not text.endswith("]"):
            raise ValueError("the bracket is not closed")
        text = text[1:-1]
    return alternatives(text)


def alternatives(text: str) -> list[str]:
    """The parts of a text between its commas, those in quotes and brackets excepted."""
    # The last match is the end of the text, or of what follows a last comma.
    return [match[1] for match in _ITEM.finditer(text)][:-1] if text.strip() else []


def is_text(hint: Any) -> bool:
    """Says whether values of this type, or the items of its lists, may be any text."""
    if get_origin(hint) is Literal:
        return False
    return hint is str or any(is_text(argument) for argument in get_args(hint))


def is_list(hint: Any) -> bool:
    """Says whether values of this type are lists, or may be."""
    return get_origin(hint) is tuple or any(is_list(argument) for argument in get_args(hint))


def _text(hint: Any, text: str) -> int | str:
    """A text, or a whole number where the type has them."""
    scalar = get_args(hint)[0] if get_origin(hint) is tuple else hint
    if int in get_args(scalar) and re.fullmatch(r"[-+]?\d+", text):
        return int(text)
    match = _QUOTED.fullmatch(text)
    return match[2] if match else expanduser(text)


def run_py(*words: str) -> str:
    """A command of run.py as one can paste it into a shell."""
    return shlex.join(["python", "run.py", *words])


def as_called(text: str) -> str:
    """A text on `python run.py` and `python -m probing` by the names of an installed package, if it
    was called by one: `looplab` or `python -m looplab`, and `python -m looplab.probing`."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    module = spec.name if spec else Path(sys.argv[0]).stem
    if module.partition(".")[0] != "looplab":
        return text
    main = "python -m looplab" if module == "looplab.__main__" else "looplab"
    text = text.replace("python run.py", main).replace("2 run.py", "2 -m looplab")
    rooms = "probing|openml_eval|experiments|benchmarks"
    text = re.sub(f"python -m (?={rooms})", "python -m looplab.", text)
    return text.replace("run.py", "looplab")


def as_typed(recorded: str | None) -> str:
    """The command that environment.json recorded (a script's path and its words) as it is typed in
    the project's folder; empty where none is known."""
    if not recorded:
        return ""
    script, *words = shlex.split(recorded)
    if Path(script).name == "run.py":
        return run_py(*words)
    room = r"(?:.*/)?((?:looplab|probing|openml_eval|evaluation|experiments|benchmarks)(?:/\w+)*?)"
    module = re.fullmatch(rf"{room}(?:/__main__)?\.py", script)
    if module:
        return shlex.join(["python", "-m", module[1].replace("/", "."), *words])
    return shlex.join([Path(script).name, *words])


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Values by dotted keys in a mapping for each part of a key. Raises ConfigError for a key of
    which a part has a value itself."""
    mapping: dict[str, Any] = {}
    for key, value in flat.items():
        # a.b.c = v becomes {"a": {"b": {"c": v}}}.
        *groups, name = key.split(".")
        section = mapping
        for group in groups:
            section = section.setdefault(group, {})
            if not isinstance(section, dict):
                raise ConfigError(key, f"is not a setting; {key.rpartition('.')[0]} is one")
        section[name] = value
    return mapping
