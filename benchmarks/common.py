"""Shared by the benchmarks: their command, the header of reports, paired ratios, the reference's
code."""

from __future__ import annotations

import importlib.util
import platform
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import NamedTuple, TypeVar

import torch

from looplab.conf.command import Settings, described, run_command
from looplab.conf.mistakes import ConfigError, one_line
from looplab.training.run_folder.files import write_json
from looplab.training.run_folder.run import versions

# Our names of tasks: the reference's.
REFERENCE_TASKS = {
    "linear": "linear_regression",
    "sparse_linear": "sparse_linear_regression",
    "decision_tree": "decision_tree",
    "relu_network": "relu_2nn_regression",
}
# Modules that the reference imports but no training step uses: the attributes it imports.
_STAND_INS = {"quinine": ("QuinineArgumentParser",), "schema": ("schema",), "wandb": ()}


_T = TypeVar("_T", bound=Settings)


class Ratio(NamedTuple):
    """Quartiles of paired ratios."""

    low: float
    middle: float
    high: float

    def __format__(self, width: str) -> str:
        return format(f"{self.middle:.3g} ({self.low:.3g} to {self.high:.3g})", width)


def run_benchmark(
    name: str,
    cls: type[_T],
    words: Sequence[str],
    text: str | None,
    measure: Callable[[_T], None],
    when_stopped: str = "stopped",
) -> int:
    """Run the benchmark of this name with the settings `cls`; returns the exit code. Its help is
    `text`, the module's, and the settings; `when_stopped` is printed after a signal."""
    help_text = f"{text}\nSettings, with their defaults:\n{described(cls)}\n"
    return run_command(f"benchmarks.{name}", cls, words, lambda: help_text, measure, when_stopped)


def paired_ratio(theirs: Sequence[float], ours: Sequence[float]) -> Ratio:
    """theirs / ours, pair by pair, measured in turn so that a slow phase of the machine slows both.
    The quartiles of one pair are its ratio."""
    ratios = [a / b for a, b in zip(theirs, ours, strict=True)]
    if len(ratios) == 1:
        return Ratio(*ratios * 3)
    return Ratio(*statistics.quantiles(ratios, n=4, method="inclusive"))


def write_report(file: str | None, device: torch.device, content: Mapping[str, object]) -> None:
    """Write `content` as JSON after date, versions, code, command and machine; make the folder.
    Nothing where there is no file."""
    if file is None:
        return
    path = Path(file)
    path.parent.mkdir(parents=True, exist_ok=True)
    header = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        **versions(),
        "command": " ".join(_without_folders(sys.argv)),
        "triton": _triton_version(),
        "device": device_name(device),
        "threads": torch.get_num_threads(),
    }
    write_json(path, {**header, **content})


def _without_folders(words: Sequence[str]) -> Iterator[str]:
    """The words of the command, paths without their folders: reports are shared."""
    for word in words:
        key, sign, path = ("", "", word) if Path(word).is_absolute() else word.partition("=")
        yield key + sign + (Path(path).name if Path(path).is_absolute() else path)


def reason(error: Exception) -> str:
    """An error as one line."""
    return f"{type(error).__name__}: " + one_line(error)


def device_name(device: torch.device) -> str:
    """The name of the card, or of the processor."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def load_reference(checkout: Path, *names: str) -> dict[str, ModuleType]:
    """The modules `names` of a checkout of github.com/Leiay/looped_transformer, imported in
    place: files of its scripts/, each listed after those it imports.

    They import one another by names that are also ours (`models`, `tasks`), so they have these
    names in sys.modules only while they load, and `reference_<name>` afterwards. Raises ConfigError
    for a missing file.
    """
    for name in names:
        if not (checkout / "scripts" / f"{name}.py").is_file():
            raise ConfigError("reference", f"is no checkout: {checkout} holds no scripts/{name}.py")
    saved_modules = {name: sys.modules.pop(name, None) for name in (*names, *_STAND_INS)}
    try:
        for name, attributes in _STAND_INS.items():
            sys.modules[name] = stand_in = ModuleType(name)
            vars(stand_in).update(dict.fromkeys(attributes))
        return {name: _load(checkout / "scripts" / f"{name}.py") for name in names}
    finally:
        for name, module in saved_modules.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"reference_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _triton_version() -> str | None:
    try:
        import triton
    except ImportError:
        return None
    return triton.__version__
