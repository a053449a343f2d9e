"""Run folders: their name, their files, their lock and their status; and the environment of a run:
versions, machine, command, and the source files that its numbers depend on."""

from __future__ import annotations

import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass
from functools import cache
from glob import escape
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import yaml

from looplab.conf.build import config_to_mapping, flatten
from looplab.conf.checksum import key_of
from looplab.conf.digest import BYTES, code_digest, kind_of
from looplab.conf.files import own_settings
from looplab.conf.in_words import NOT_OF_NUMBERS
from looplab.conf.mistakes import ConfigError
from looplab.conf.mistakes import RunError as RunError
from looplab.conf.plugins import COPIES, PREFIX, edited_files, is_users
from looplab.conf.saved import read_config
from looplab.conf.schema import Config
from looplab.models import Model
from looplab.models.kernels.choice import Choice
from looplab.models.loops.make import loop_class
from looplab.tasks import Task, task_class

from .files import list_names, read_record, write_bytes, write_record
from .sources import (
    CELLS,
    KERNELS,
    TRAINED,
    changed_code,
    outside_code,
    outside_modules,
    outside_source,
    sources_of,
    training_part,
)
from .status import curve_name, holding, one_number, status_of, writer

if TYPE_CHECKING:
    from pandas import DataFrame

_PACKAGES = ("torch", "numpy", "safetensors", "scikit-learn")
# Settings that neither a run's weights nor its name depend on.
IRRELEVANT = (*NOT_OF_NUMBERS, "task.name", "model.family")


@dataclass(frozen=True)
class Run:
    """A trained run, as `train` and `load_run` return it.

    Parameters
    ----------
    path : Path
        Its folder.
    config : Config
        Every setting.
    task : Task
        What it was trained on; `task.sample` draws prompts.
    model : Model
        In eval mode, with the weights after `step` steps.
    step : int
        How many steps it has made, of `config.training.steps`.

    Examples
    --------
    >>> from looplab import load_run
    >>> load_run("shipped/linear").step
    5000
    """

    path: Path
    config: Config
    task: Task
    model: Model
    step: int

    def errors(self, by: str = "by_examples") -> DataFrame:
        """Return the errors of the evaluation that the run folder shows.

        Parameters
        ----------
        by : {"by_examples", "by_loop"}
            A row for each number of examples k, or for each loop; "examples" and "loop" for short.

        Returns
        -------
        pandas.DataFrame
            Columns `k` or `loop`, then `model_mean`, `model_low` and `model_high`, the ends of the
            90 % interval over prompts. The same of every solver, or change over a loop, follows.

        Raises
        ------
        RunError
            Where these weights were not evaluated.

        Examples
        --------
        >>> from looplab import evaluate, load_run
        >>> run = load_run("shipped/linear")
        >>> _ = evaluate(run, prompts=16, resamples=20)
        >>> run.errors()[["k", "model_mean", "least_squares_mean"]].shape
        (21, 3)
        """
        from pandas import DataFrame

        by = curve_name("by", by)
        curves = shown_evaluation(self)[by]
        x = "k" if by == "by_examples" else "loop"
        columns = {x: curves[x]}
        for name, band in curves.items():
            # The two differ only where `evaluation.loops` is not b.
            is_same = name == "model_at_b" and band == curves["model"]
            if isinstance(band, Mapping) and "mean" in band and not is_same:
                columns |= {f"{name}_{end}": values for end, values in band.items()}
        return DataFrame(columns)

    def _facts(self) -> dict[str, str]:
        """The run in a few words, by what they say."""
        model = self.config.model
        steps = self.config.training.steps
        facts = {"task": self.config.task.name, "model": model.connectivity or model.family}
        facts["step"] = f"{self.step:,} of {steps:,}"
        facts["state"] = status_of(self.path)["state"]
        with suppress(RunError, LookupError, TypeError):  # none, or one of another form
            facts["error"] = f"{one_number(shown_evaluation(self)):.4g}"
        return facts

    def __repr__(self) -> str:
        facts = ", ".join(f"{name} {value}" for name, value in self._facts().items())
        return f"<Run {self.path.name}: {facts}>"

    def _repr_html_(self) -> str:
        from pandas import Series

        facts = {"run": self.path.name} | self._facts()
        return Series(facts).to_frame().to_html(header=False)


def shown_evaluation(run: Run) -> dict[str, Any]:
    """The content of the evaluation.json of a run. Raises RunError where there is none, or it is of
    other weights."""
    content = read_record(run.path / "evaluation.json", "evaluation").content or {}
    if content.get("step") != run.step:
        raise RunError(f"{run.path} is not evaluated at step {run.step:,}: evaluate(run) first")
    return content


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run and the files in it."""

    path: Path

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    def create(self, config: Config, backend: str = "eager", choice: Choice | None = None) -> None:
        """Write configuration and environment, unless they exist, and copies of the plugins. The
        caller must hold the folder's lock.

        Raises RunError where the folder holds a run of other settings, ConfigError where its
        configuration cannot be read.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        path = self.path / "config.yaml"
        if not (self.path / "environment.json").exists():
            self._write_environment(environment(config, backend, choice))
        # After environment.json: a folder with a config.yaml is a run (status.py), and has both.
        if not path.exists():
            mapping = config_to_mapping(config)
            write_bytes(path, yaml.safe_dump(mapping, sort_keys=False).encode())
        elif changes := self.differences(config, read_config(self.path)):
            raise RunError(
                f"{self.path} holds a run of other settings ({', '.join(changes)}): move it away"
            )
        self._keep_plugins(config)

    def _keep_plugins(self, config: Config) -> None:
        """Copy the plugins, with what they import from beside them, where the copies are others."""
        for plugin in config.plugins:
            module = sys.modules[PREFIX + Path(plugin).stem]
            for name, content in outside_code(module).items():
                copy = self.path / COPIES / name
                if not copy.exists() or copy.read_bytes() != content:
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    write_bytes(copy, content)

    def differences(self, config: Config, saved_config: Config) -> list[str]:
        """The settings for training in which the saved configuration differs, as text."""
        values = _training_values(config) | {"task": config.task.name}
        saved_values = _training_values(saved_config) | {"task": saved_config.task.name}
        keys = [key for key in values | saved_values if values.get(key) != saved_values.get(key)]
        return [f"{key} is {saved_values.get(key)}, not {values.get(key)}" for key in keys[:3]]

    def made_with(self) -> dict[str, Any] | None:
        """The environment that the run was made in; None where it cannot be read."""
        return read_record(self.path / "environment.json", "environment").content

    def changes(self, config: Config, backend: str = "eager") -> list[str]:
        """The differences between the run's environment and the current one, a line each."""
        before = self.made_with()
        if before is None:
            return ["environment.json cannot be read: what it was made with is not known"]
        now = environment(config, backend)
        lines = []
        for key in ("python", *_PACKAGES, "machine"):
            if before.get(key) != now[key]:
                lines.append(f"{key} was {before.get(key)}, is {now[key]}")
        files = other_code(before, config)
        if files:
            lines.append(
                f"{list_names(files)} changed: this run's numbers are marked as made by other code "
                "(again=true trains again)"
            )
        return lines

    def note_code(
        self, config: Config, backend: str, step: int, choice: Choice | None = None
    ) -> None:
        """Record the code with which training begins (step 0), or goes on from a later step."""
        before = self.made_with()
        now = environment(config, backend, choice)
        if not step or before is None:
            self._write_environment(now | {"from_step": step} if step else now)
            return
        continuations = before.get("continued", [])
        records = [before, *continuations]
        # What was recorded once is not recorded again, however often the run is resumed.
        keys = ("sources", "kernels")
        if all(any(record.get(key) != now.get(key) for key in keys) for record in records):
            continuations.append(now | {"from_step": step})
            self._write_environment(before | {"continued": continuations})

    def _write_environment(self, made_with: Mapping[str, Any]) -> None:
        write_record(self.path / "environment.json", "environment", made_with)

    def status(self) -> dict[str, Any]:
        """The run's status: see `status_of`."""
        return status_of(self.path)

    def write_status(self, state: str, step: int, **facts: Any) -> None:
        """Replace the status, with the process that wrote it."""
        content = {"state": state, "step": step} | facts | writer()
        write_record(self.path / "status.json", "status", content)

    def set_aside(self) -> Path | None:
        """Rename the folder, if it exists; the new path, beside the old one. Raises HeldElsewhere
        while another process works in it."""
        if not self.path.exists():
            return None
        with self.lock():
            number = 1
            while (backup := self.path.with_name(f"{self.path.name}-before-{number}")).exists():
                number += 1
            self.path.rename(backup)
        return backup

    def lock(self, part: str = "") -> AbstractContextManager[None]:
        """Lock the folder, or a part of it, against other processes: see `holding`."""
        return holding(self.path, part)


def check_there(path: Path) -> None:
    """Raises RunError where the folder of a run was deleted while something worked on it."""
    if not (path / "config.yaml").exists():
        raise RunError(f"its folder {path} was deleted: nothing of it is left")


def run_folder(config: Config) -> RunFolder:
    """The run folder of a configuration, named by its `name`, task, model, seed, and a hash.

    The hash is of the settings for training that differ from their defaults, so that new settings
    rename no old runs. Of a task and a loop that were registered outside the project it is also of
    what bears on training in their sources. A run of plugins that an earlier version named keeps
    its name."""
    values = _training_values(config)
    defaults = _training_values(Config()) | _task_defaults(config.task.name)
    # What is at its default is not hashed: a setting added later leaves old names as they are.
    changes = {key: value for key, value in values.items() if defaults.get(key) != value}
    sources = {part: outside_source(cls) for part, cls in _classes(config).items()}
    changes |= {f"{part}.source": source for part, source in sources.items() if source is not None}
    start = f"{config.task.name}-{config.model.family}-seed{config.seed}"
    start = f"{config.name}-{start}" if config.name else start
    path = Path(config.folder) / f"{start}-{key_of(changes, 8)}"
    if any(sources.values()) and not path.exists():
        path = _named_before(config, path) or path
    return RunFolder(path)


def _named_before(config: Config, path: Path) -> Path | None:
    """The run of the same settings, beside `path`, that an earlier version named by its files'
    bytes, if its copies of the user's files have the code of today's."""
    code = _user_code(config)
    for folder in _alike(path):
        copies = {name: folder / COPIES / name for name in code}
        copies = {name: copy for name, copy in copies.items() if copy.is_file()}
        is_same = bool(copies)
        for name, copy in copies.items():
            kept = code_digest(training_part(copy.read_bytes()))
            is_same &= code_digest(training_part(code[name])) == kept
        if is_same and _is_named_by_bytes(folder) and _has_settings(folder, config):
            return folder
    return None


def _alike(path: Path) -> list[Path]:
    """The folders beside `path` whose names differ from its name in the hash alone."""
    # The hash has eight digits.
    pattern = f"{escape(path.name.rpartition('-')[0])}-????????"
    return sorted(folder for folder in path.parent.glob(pattern) if folder != path)


@cache  # what a run was made with does not change
def _is_named_by_bytes(folder: Path) -> bool:
    made_with = RunFolder(folder).made_with() or {}
    return any(kind_of(digest) == BYTES for digest in made_with.get("sources", {}).values())


def _has_settings(folder: Path, config: Config) -> bool:
    """Says whether the run in a folder has the settings for training of a configuration."""
    try:
        return not RunFolder(folder).differences(config, read_config(folder))
    except ConfigError:
        return False


def edited_since_loaded(config: Config) -> list[str]:
    """The names of the user's files that hold the task and the loop, or are imported by them, and
    were edited after they were loaded: a run is of the code that was loaded."""
    classes = _classes(config).values()
    modules = [module for cls in classes for module in outside_modules(cls)]
    return sorted({name for module in modules for name in edited_files(module)})


def edited_since(config: Config, path: Path) -> str:
    """A line on a run of the same settings as the one in the folder `path`. It is empty unless the
    user has edited the file of its task or way to loop since."""
    modules = [cls.__module__ for cls in _classes(config).values() if is_users(cls)]
    for other in _alike(path) if modules else ():
        if _has_settings(other, config):
            files = dict.fromkeys(f"{name.removeprefix(PREFIX)}.py" for name in modules)
            names = " and ".join(files)
            return f"{names} was edited after {other.name} was begun: this is another run"
    return ""


def _training_values(config: Config) -> dict[str, Any]:
    """The settings for training by dotted key; those of its task that a run of an earlier version
    does not have are at their default."""
    flat = _task_defaults(config.task.name) | flatten(config_to_mapping(config))
    return {k: v for k, v in flat.items() if not k.startswith(IRRELEVANT)}


def environment(
    config: Config, backend: str = "eager", choice: Choice | None = None
) -> dict[str, Any]:
    """Versions, machine and command, for environment.json, and the source files that the weights of
    a run depend on, with their digests; and the variants of kernels that it has a choice of."""
    rooms = (*TRAINED, KERNELS) if backend == "triton" else TRAINED
    sources = sources_of(*rooms, things=_classes(config).values(), for_training=True)
    facts = versions() | {"backend": backend, "sources": sources}
    return facts | {"kernels": asdict(choice)} if choice else facts


def versions() -> dict[str, Any]:
    """Versions, machine, commit and command of this process."""
    threads = torch.get_num_threads()
    facts: dict[str, Any] = {"command": shlex.join(sys.argv), "git_commit": _git_commit()}
    facts["python"] = platform.python_version()
    for name in _PACKAGES:
        facts[name] = version(name)
    facts["machine"] = f"{platform.system()} {platform.machine()}, {threads} threads"
    facts["threads"] = threads
    facts["gpu"] = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return facts


def other_code(record: Mapping[str, Any] | None, config: Config) -> list[str]:
    """The files in which the code of a run, or of any part of it, differs from today's; none
    without a record, as of earlier versions and imported checkpoints."""
    cells = sources_of(things=_classes(config).values(), for_training=True).get(CELLS, "")
    return changed_code(record or {}, _user_code(config), cells)


def _user_code(config: Config) -> dict[str, bytes]:
    """The content of the user's files that hold the task and the loop, by their names."""
    contents: dict[str, bytes] = {}
    for cls in _classes(config).values():
        contents |= outside_code(cls)
    return contents


def _classes(config: Config) -> dict[str, type]:
    """The class of a run's task and, if it was registered, that of its loop."""
    loop = loop_class(config.model.injection)
    return {"task": task_class(config.task.name)} | ({"loop": loop} if loop else {})


def _git_commit() -> str | None:
    """The commit of this code, marked where the work tree differs from it; None where it is
    installed, maybe within another repository."""
    home = Path(__file__).resolve().parents[2]
    if not (home / ".git").exists():
        return None
    command = ["git", "-C", str(home), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return result.stdout.strip() or None


def _task_defaults(task: str) -> dict[str, Any]:
    return flatten({"task": {"settings": own_settings(task) or {}}})
