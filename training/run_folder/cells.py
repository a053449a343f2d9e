"""What the code of a class or function in a notebook's cell consists of.

These are the definitions in cells and the constants that it names, directly or through others, and
the modules that it calls.

definitions, modules = reached(Curves)
"""

import ast
import dis
import hashlib
import inspect
import sys
from collections.abc import Callable
from enum import Enum
from functools import cached_property, partial
from linecache import getlines
from numbers import Number
from operator import attrgetter
from pathlib import Path, PurePath
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any

import numpy as np

from looplab.conf.digest import code_digest
from looplab.conf.imports import file_of, is_installed
from looplab.conf.plugins import written_in

_PLAIN = (Number, str, bytes, range, slice, Enum, PurePath, np.generic, np.ufunc)
_OF_TORCH = ("dtype", "device")  # whose package is imported late
_ADDRESS = " at 0x"  # in the text of an object that does not say what it is
_CONTAINERS = (tuple, list, set, frozenset, dict)


def reached(thing: Any) -> tuple[list[str], list[str]]:
    """Return the digest of each definition and the value of each constant, sorted, and the names of
    the modules."""
    pending = [thing]
    seen: list[Any] = []
    sources: set[str] = set()
    modules: set[str] = set()
    while pending:
        value = pending.pop()
        # By identity: == of arrays is an array, and True == 1 would leave out one of two constants.
        if any(value is other for other in seen):
            continue
        seen.append(value)
        if isinstance(value, ModuleType):
            modules.add(value.__name__)
        elif isinstance(value, type | FunctionType) and is_in_cell(value):
            sources.add(code_digest(_source(value).encode()))
            pending += _named_in(value)
        elif isinstance(value, type | FunctionType | BuiltinFunctionType):
            # Of code in files the name alone: these modules' files are recorded elsewhere.
            sources.add(f"{value.__module__}.{value.__qualname__}")
            modules.add(str(value.__module__))  # None for what code of numpy makes
        elif (constant := _constant(value)) is not None:
            sources.add(constant)
        elif parts := _parts(value):
            pending += parts
        elif _ADDRESS not in repr(value):
            sources.add(repr(value))
    return sorted(sources), sorted(modules)


def is_in_cell(value: type | FunctionType) -> bool:
    """Says whether a class or function is defined in a notebook's cell, whose module has no file,
    and may not be loaded as one, either."""
    module = str(value.__module__)
    if module in sys.builtin_module_names or file_of(module) is not None:
        return False
    functions = [value] if isinstance(value, FunctionType) else _functions(value)
    return module in sys.modules or any(map(_lines, functions))


def has_source(cls: type) -> bool:
    """Says whether the cell of a class is known: not in a plain shell. What `dataclass` adds has
    none."""
    functions = [item for item in _functions(cls) if not item.__name__.startswith("__")]
    return not functions or any(map(_lines, functions))


def _source(value: type | FunctionType) -> str:
    """The text of a definition in a cell; empty where it is not found, as of a class without
    functions."""
    if isinstance(value, FunctionType):
        first = value.__code__.co_firstlineno
        lines = _lines(value)
        if value.__name__ == "<lambda>":
            return _definition(
                lines, lambda node: isinstance(node, ast.Lambda) and node.lineno == first
            )
        return "".join(inspect.getblock(lines[first - 1 :])) if lines else ""
    lines = next(filter(None, map(_lines, _functions(value))), [])
    name = value.__name__
    return _definition(lines, lambda node: isinstance(node, ast.ClassDef) and node.name == name)


def _lines(function: FunctionType) -> list[str]:
    """The lines of the cell that defines a function."""
    return getlines(function.__code__.co_filename)


def _definition(lines: list[str], is_meant: Callable[[ast.AST], bool]) -> str:
    """The last definition in a cell that is meant; the whole cell where there is none."""
    # Of a class only the name is known, of a lambda its line: the syntax tree says where each ends.
    text = "".join(lines)
    try:
        nodes: list[Any] = [node for node in ast.walk(ast.parse(text)) if is_meant(node)]
    except SyntaxError:  # a notebook's own commands
        return text
    if not nodes:
        return text
    node = max(nodes, key=attrgetter("end_lineno"))
    decorators = getattr(node, "decorator_list", [])
    first = min((decorator.lineno for decorator in decorators), default=node.lineno)
    return "".join(lines[first - 1 : node.end_lineno])


def _functions(cls: type) -> list[FunctionType]:
    """The functions that a class defines."""
    members: list[Any] = []
    for value in written_in(cls).values():
        members.append(value)
        members += _parts(value)  # of a property or a static method
    return [member for member in members if isinstance(member, FunctionType)]


def _named_in(value: type | FunctionType) -> list[Any]:
    """The names in a definition, each with its value, and what else it is made of."""
    if isinstance(value, type):
        written = written_in(value).items()
        things: list[Any] = [item for item in written if not item[0].startswith("__")]
        things += _functions(value)
        things += value.__bases__
        return things
    names = _global_names(value.__code__)
    things = [(name, value.__globals__[name]) for name in names if name in value.__globals__]
    contents = [cell.cell_contents for cell in value.__closure__ or ()]
    things += zip(value.__code__.co_freevars, contents, strict=True)
    things += [value.__defaults__, value.__kwdefaults__, getattr(value, "__wrapped__", None)]
    return things


def _global_names(code: CodeType) -> list[str]:
    """The global names that a function reads and does not assign, with those of functions in it."""
    instructions = list(dis.get_instructions(code))
    assigned = {item.argval for item in instructions if item.opname == "STORE_GLOBAL"}
    # From the bytecode: it knows which names are global, and leaves out strings and comments.
    names = [item.argval for item in instructions if item.opname == "LOAD_GLOBAL"]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names += _global_names(constant)
    return [name for name in names if name not in assigned]


def _is_users(cls: type) -> bool:
    """Says whether a class is neither the project's nor of an installed package."""
    module = str(cls.__module__)
    is_own = not module.startswith("looplab.") and not is_installed(file_of(module) or Path())
    return is_own and module not in sys.builtin_module_names


def _constant(value: Any) -> str | None:
    """A plain value or an array as text, alike in every process; None for anything else."""
    if value is None or isinstance(value, _PLAIN) or type(value).__name__ in _OF_TORCH:
        return repr(value)
    if isinstance(value, type | ModuleType):
        return None
    if hasattr(value, "detach"):  # a tensor, whose package is imported late
        value = value.detach().cpu()
        # NumPy has no bfloat16; float32 has all of its values.
        value = (value.float() if str(value.dtype) == "torch.bfloat16" else value).numpy()
    if isinstance(value, np.ndarray) and value.dtype == object:
        value = value.tolist()
    elif isinstance(value, np.ndarray):
        digest = hashlib.sha256(value.tobytes()).hexdigest()
        return f"{value.dtype} {value.shape} {digest}"
    if not isinstance(value, _CONTAINERS):
        return None
    texts = [_constant(part) for part in _parts(value)]
    if None in texts:
        return None
    is_ordered = isinstance(value, tuple | list)
    return f"{type(value).__name__} {texts if is_ordered else sorted(map(str, texts))}"


def _parts(value: Any) -> list[Any]:
    """What a container, a partial function or a method of some kind is made of."""
    if isinstance(value, type | ModuleType):
        return []
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, _CONTAINERS):
        return list(value)
    if isinstance(value, partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, property):
        return [value.fget, value.fset]
    if isinstance(value, staticmethod | classmethod):
        return [value.__func__]
    if isinstance(value, cached_property):
        return [value.func]
    if isinstance(value, MethodType):
        return [value.__func__, value.__self__]
    if hasattr(value, "__wrapped__"):  # as by functools.cache
        return [value.__wrapped__]
    if hasattr(value, "state_dict"):  # a network
        return [type(value), value.state_dict()]
    if isinstance(value, SimpleNamespace) or _is_users(type(value)):
        return [type(value), dict(getattr(value, "__dict__", {}))]
    return []
