"""The guards of a user's classes: an error in them names his line, and the classes stay his own."""

import pickle
import sys
from inspect import signature
from pathlib import Path
from types import ModuleType

import pytest
import torch

from looplab.conf.plugins import PREFIX, Slip, load_plugins, written_in
from looplab.models.blocks.spec import BlockSpec
from looplab.probing.targets import find_target
from looplab.tasks import SHIFTS, Shift, Task, make_task, task_class

CODE = '''
from dataclasses import dataclass
import torch
from looplab import Target, Task, register_loop, register_shift, register_target, register_task
from looplab.models.loops.loop import SharedLoop
from looplab.tasks import Shift

@register_task("guarded")
@dataclass(frozen=True)
class Guarded(Task):
    """A task of his."""
    level: float = 2.0
    divisor = property(lambda self: 1.0)
    def __post_init__(self):
        super().__post_init__()
        [][int(self.level)]
    def parameters(self, random, dims):
        return random.normal(self.dims)
    def outputs(self, xs, w):
        return (xs @ w[:, :, None]).squeeze(2)

@dataclass(frozen=True)
class Narrow(Shift):
    def examples(self, normal, random):
        return normal[:, :, 0]

register_shift("narrow", Narrow("narrow"))

@register_target("broken")
class Broken(Target):
    label = "broken"
    def compute(self, prompts, parameters, task):
        return prompts.missing

@register_target("static")
class Static(Target):
    label = "static"
    @staticmethod
    def compute(prompts, parameters, task):
        return prompts.xs

@register_loop("guarded")
class Sum(SharedLoop):
    """A loop of his."""
    def __init__(self, spec):
        super().__init__(spec, "add")
'''


MODULE = f"{PREFIX}guarded_file"


@pytest.fixture
def file(tmp_path: Path) -> ModuleType:
    """The module of a user's file."""
    path = tmp_path / "guarded_file.py"
    path.write_text(CODE, encoding="utf-8")
    load_plugins([str(path)])
    return sys.modules[MODULE]


def line_of(text: str) -> str:
    return f"guarded_file.py, line {CODE.splitlines().index(text) + 1}"


def test_errors_name_the_line_wherever_methods_are_called(file: ModuleType) -> None:
    with pytest.raises(Slip, match=line_of("        [][int(self.level)]")):
        make_task("guarded", 3)
    task = make_task("linear", 3)
    prompts, parameters = task.draw(torch.Generator().manual_seed(0), 2, 4)
    with pytest.raises(Slip, match=line_of("        return prompts.missing")):
        find_target("broken").compute(prompts, parameters, task)
    assert find_target("static").compute(prompts, parameters, task) is prompts.xs
    with pytest.raises(Slip, match=line_of("class Narrow(Shift):")):  # by what it returned
        SHIFTS["narrow"].sample(task, torch.Generator().manual_seed(0), 2, 4)


def test_a_guarded_class_is_the_one_that_was_written(file: ModuleType) -> None:
    cls = task_class("guarded")
    assert cls is file.Guarded
    assert issubclass(cls, Task)
    assert (cls.__name__, cls.__doc__) == ("Guarded", "A task of his.")
    assert [*signature(cls).parameters][-1] == "level"
    assert type(SHIFTS["narrow"]) is file.Narrow
    assert isinstance(SHIFTS["narrow"], Shift)
    assert "sample" not in written_in(file.Narrow)


def test_an_inherited_method_stays_the_next_in_a_subclass(file: ModuleType) -> None:
    """As without a guard: here that of the second parent, which the first does not define."""

    class Mixin(Shift):
        def sample(self, *arguments: object) -> str:  # type: ignore[override]
            return "mixin"

    class Both(file.Narrow, Mixin):  # type: ignore[name-defined, misc]
        pass

    assert Both("both").sample(None, None, 2, 4) == "mixin"


def test_classes_and_instances_travel(file: ModuleType) -> None:
    for cls in (file.Guarded, file.Sum, file.Narrow, file.Broken):
        assert pickle.loads(pickle.dumps(cls)) is cls  # noqa: S301 - of this test
    shift = pickle.loads(pickle.dumps(SHIFTS["narrow"]))  # noqa: S301
    assert shift == SHIFTS["narrow"]
    loop = file.Sum(BlockSpec(8, 2))
    assert type(pickle.loads(pickle.dumps(loop))) is file.Sum  # noqa: S301
