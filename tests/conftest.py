"""What all tests share: one thread a process, interpreted kernels where there is no GPU, and a run
that takes a moment."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

# Before torch is loaded: two test processes on two cores, and the same sums on every machine.
os.environ["OMP_NUM_THREADS"] = "1"

import torch

# Before Triton is loaded, which then and only then decides whether it interprets its kernels.
os.environ.setdefault("TRITON_INTERPRET", "0" if torch.cuda.is_available() else "1")

import pytest
from torch import Tensor, nn

from looplab.conf import plugins
from looplab.conf.schema import (
    Config,
    EvaluationConfig,
    LoopsConfig,
    ModelConfig,
    TaskConfig,
    TrainingConfig,
)
from looplab.evaluation import baselines
from looplab.main import main
from looplab.models import Model
from looplab.models.kernels.choice import own_path
from looplab.models.loops import make
from looplab.models.segment import Segment
from looplab.probing.targets import TARGETS
from looplab.tasks import SHIFTS, task
from looplab.training import Run, train
from looplab.training.run_folder import sources

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tests.training.stopping.killed import Killable

HOME = Path(__file__).parent.parent  # the project
_PNG = base64.b64decode(  # one pixel
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
)

# What a shell runs in its background ignores Ctrl-C, and so does all that comes from there; tests
# send it.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples on every machine, and no folder of found ones. A machine that lends its GPU may
# not have Hypothesis; the tests that need it do not run there.
if find_spec("hypothesis"):
    from hypothesis import settings

    settings.register_profile("fixed", derandomize=True, database=None, deadline=None)
    settings.load_profile("fixed")


def pytest_make_parametrize_id(val: object) -> str | None:
    """Types in the names of tests as everywhere else, so that -k bf16 selects them."""
    names = {torch.bfloat16: "bf16", torch.float32: "fp32"}
    return names.get(val) if isinstance(val, torch.dtype) else None


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What tests keep of texts, and the processes that they start."""
    os.environ["LOOPLAB_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(autouse=True)
def own_things(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """What a test registers, and what it imports from its own folder, is gone after it."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    registries: list[dict[str, Any]] = [
        *(task._REGISTRY, make._REGISTRY, baselines._SOLVERS, SHIFTS, TARGETS),
        *(plugins._TASKS, plugins._NAMES, *plugins._NAMES.values()),
    ]
    before = [dict(registry) for registry in registries]
    modules = set(sys.modules)
    yield
    for registry, things in zip(registries, before, strict=True):
        registry.clear()
        registry.update(things)
    for name in sys.modules.keys() - modules:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if Path(file).is_relative_to(tmp_path_factory.getbasetemp()):
            del sys.modules[name]


@pytest.fixture(autouse=True)
def no_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are whole, whatever terminal the tests run in."""
    monkeypatch.delenv("COLUMNS", raising=False)


def own_table() -> Path:
    """The file of the user's own table of kernels' variants."""
    path = own_path()
    assert path
    return path


def tiny_config(folder: Path) -> Config:
    """Sparse regression in three dimensions, 40 steps of a very small looped model."""
    return Config(
        task=TaskConfig("sparse_linear", dims=3, points=7, settings={"sparsity": 2}),
        model=ModelConfig(n_embd=16, n_head=2, n_positions=7),
        loops=LoopsConfig(b=4, T=2),
        training=TrainingConfig(steps=40, batch_size=8, checkpoint_every=20, log_every=10),
        evaluation=EvaluationConfig(prompts=64, resamples=50, batch_size=24),
        folder=str(folder),
    )


@pytest.fixture
def tiny_run(tmp_path: Path) -> Run:
    """A finished run of `tiny_config`."""
    return train(tiny_config(tmp_path))


@pytest.fixture
def linear_run(tmp_path: Path) -> Run:
    """A finished run of dense linear functions, for which there is a control."""
    config = tiny_config(tmp_path)
    return train(replace(config, task=replace(config.task, name="linear", settings={})))


def python(*words: object, cwd: Path = HOME, **extra: str) -> subprocess.CompletedProcess[str]:
    """This Python as a process of its own, and what it says; with more in its environment."""
    command, environment = [sys.executable, *map(str, words)], os.environ | extra
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


def printed(*words: object, cwd: Path = HOME, **extra: str) -> str:
    """What this Python prints as a process of its own, which fails at nothing."""
    done = python(*words, cwd=cwd, **extra)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Command(Protocol):
    """command(*words): what run.py prints of these words, in this process."""

    def __call__(self, *words: str) -> str: ...


class Refused(Protocol):
    """refused(*words): the one line by which run.py refuses these words, in this process."""

    def __call__(self, *words: str, code: int = 2) -> str: ...


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    def command(*words: str) -> str:
        capsys.readouterr()  # what was printed before
        assert main([*words]) == 0
        return capsys.readouterr().out

    return command


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Refused:
    def refused(*words: str, code: int = 2) -> str:
        capsys.readouterr()
        assert main([*words]) == code
        said = capsys.readouterr().err
        assert said.count("\n") == 1, said
        return said

    return refused


def times_of(folder: Path, pattern: str) -> dict[Path, int]:
    """When each of these files, of which there are some, was last written (an atomic write of the
    same content is seen, too)."""
    times = {path: path.stat().st_mtime_ns for path in folder.glob(pattern)}
    assert times
    return times


@contextmanager
def batches_of(model: Model, most: int = 1000, pause: float = 0.0) -> Iterator[list[int]]:
    """The number of prompts in each batch that a model reads in this context, with a pause of so
    many seconds before each; where more than `most` are read, KeyboardInterrupt."""
    sizes = list[int]()

    def note(module: nn.Module, given: tuple[Tensor]) -> None:
        if len(sizes) == most:
            raise KeyboardInterrupt
        time.sleep(pause)
        sizes.append(len(given[0]))

    hook = model.read_in.register_forward_pre_hook(note)
    try:
        yield sizes
    finally:
        hook.remove()


@pytest.fixture
def edit(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """edit("tasks/linear.py"): from here on as if this file had been edited, and no other; with an
    empty name, none."""
    digest, edited = sources._digest, [""]

    def other(path: Path, *more: Any) -> str:
        mark = "x" if edited[0] and path.as_posix().endswith(edited[0]) else ""
        return digest(path, *more) + mark

    def edit(file: str) -> None:
        edited[0] = file

    monkeypatch.setattr(sources, "_digest", other)
    return edit


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> Callable[[Segment], None]:
    """kernels(run_segment): what the backend `triton` computes by, with Triton or without."""

    def kernels(run_segment: Segment) -> None:
        for name in ("looplab.models.kernels", "looplab.models.kernels.segment"):
            module = ModuleType(name)
            vars(module)["run_segment"] = run_segment
            monkeypatch.setitem(sys.modules, name, module)

    return kernels


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> dict[str, Figure]:
    """Pictures are put together but not rendered, which is two thirds of a small evaluation's time;
    the figures, by their file's name, the latest of each name."""
    return without_rendering(monkeypatch)


def without_rendering(monkeypatch: pytest.MonkeyPatch) -> dict[str, Figure]:
    """The same while this monkeypatch lasts."""
    return _saved(monkeypatch, lambda _, path, __: path.write_bytes(_PNG))


@pytest.fixture
def saved(monkeypatch: pytest.MonkeyPatch) -> dict[str, Figure]:
    """The figures that are saved, by their file's name, the latest of each name."""
    from looplab.show.drawing import write_picture

    return _saved(monkeypatch, write_picture)


def _saved(
    monkeypatch: pytest.MonkeyPatch, save: Callable[[Figure, Path, str], object]
) -> dict[str, Figure]:
    figures: dict[str, Figure] = {}

    def note(figure: Figure, path: Path, form: str) -> None:
        figures[path.name.partition(".")[0]] = figure
        save(figure, path, form)

    monkeypatch.setattr("looplab.show.drawing.write_picture", note)
    return figures


@pytest.fixture
def started() -> Iterator[list[Killable]]:
    """Whatever a test starts and puts into this list is ended with it."""
    commands: list[Killable] = []
    yield commands
    for each in commands:
        each.end()
