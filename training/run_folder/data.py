"""A run keeps digests of the data that its task reads, and the files without which its model cannot
be used.

keep_data(path, task)                  # when training begins
changed_data(path, config, task)       # ["text"]: the file is another one today
why_not_resumed(path, config, task)    # "its data changed after it began (text)"
task_in(path, config)                  # the task as the run has it
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from looplab.conf.mistakes import ConfigError, RunError
from looplab.conf.schema import Config
from looplab.tasks import Task
from looplab.tasks.data import EXPORT_PREFIX

from ..assemble import build_task
from .files import read_record, write_bytes, write_record

_NAME = "data"


def task_in(path: Path, config: Config) -> Task:
    """The task of a run in the folder `path`, with the files that it keeps; data that are not where
    its settings say, seen from another working folder, are looked for where they were when it
    began."""
    task = build_task(config)
    task = replace(task, **task.data.settings_in(path))
    kept_paths = _kept(path).get("paths", {})
    elsewhere = {}
    for name, given in task.data.paths().items():
        then = kept_paths.get(name)
        # Absolute, or seen from the same folder as then: the path means what it meant.
        if then is None or Path(given).is_absolute() or str(Path(given).absolute()) == then:
            continue
        # Seen from another working folder, a relative path names another file, or none.
        if Path(then).exists() or not Path(given).exists():
            elsewhere[name] = then
    return replace(task, **elsewhere)


def keep_data(path: Path, task: Task) -> None:
    """Keep what identifies the data of a run that begins in the folder `path`, and where they are;
    nothing for a task that reads none."""
    if not (identity := task.data.identity()):
        return
    files = task.data.kept()
    for name, text in files.items():
        write_bytes(path / name, text.encode())
    paths = {name: str(Path(given).absolute()) for name, given in task.data.paths().items()}
    content: dict[str, Any] = {"identity": identity, "paths": paths, "files": list(files)}
    content["vocabulary"] = task.data.vocabulary
    write_record(path / f"{_NAME}.json", _NAME, content)


def keep_places(path: Path, task: Task) -> None:
    """Keep where the data of the run in `path` are today, as `task` names them."""
    places = {name: str(Path(given).absolute()) for name, given in task.data.paths().items()}
    if (content := _kept(path)) and places != content["paths"]:
        write_record(path / f"{_NAME}.json", _NAME, content | {"paths": places})


def changed_data(path: Path, config: Config, task: Task) -> list[str]:
    """The parts of the data that differ from those that the run in `path` began with, or cannot be
    read any more; empty for a run that has kept none. `task` is the run's, by `task_in`."""
    kept = _kept(path).get("identity", {})
    if not kept:
        return []
    try:
        now = task.data.identity()
    except (ConfigError, RunError):  # a file is no longer there
        now = {}
    # Names of either, so that a part which is gone, or new, counts too.
    changed = [name for name in kept | now if kept.get(name) != now.get(name)]
    # What its folder keeps is read from there: the file of its settings may be another one.
    return changed or build_task(config).data.changed(path)


def why_not_resumed(path: Path, config: Config, task: Task) -> str:
    """Say why the unfinished run in `path` cannot go on with today's data; '' where it can.
    A text needs the record of its data: without it nobody knows which tokens the model has seen."""
    record = read_record(path / f"{_NAME}.json", _NAME)
    if task.is_text and not record.content:
        return record.problem or f"it has no {_NAME}.json, which identifies its text and tokens"
    changed = changed_data(path, config, task)
    return f"its data changed after it began ({', '.join(changed)})" if changed else ""


def copy_kept(path: Path, target: Path, *, exported: bool = False) -> None:
    """Copy what the run in `path` keeps of its data, if anything, to another folder; to an export
    without where the data were, and under names of its own."""
    kept = _kept(path)
    if not kept:
        return
    prefix = EXPORT_PREFIX if exported else ""
    files = []
    for name in kept.get("files", ()):
        files.append(prefix + name.removeprefix(prefix))
        write_bytes(target / files[-1], (path / name).read_bytes())
    paths = {} if exported else kept["paths"]
    write_record(target / f"{_NAME}.json", _NAME, kept | {"paths": paths, "files": files})


def kept_vocabulary(path: Path) -> int:
    """The number of tokens that the text had on which the run in `path` was trained. Raises
    RunError where its record is missing or damaged."""
    record = read_record(path / f"{_NAME}.json", _NAME)
    if not (vocabulary := (record.content or {}).get("vocabulary")):
        problem = record.problem or f"{path} has no {_NAME}.json of a text"
        raise RunError(f"{problem}; it says how many tokens the model's vocabulary has")
    return int(vocabulary)


def _kept(path: Path) -> dict[str, Any]:
    return read_record(path / f"{_NAME}.json", _NAME).content or {}
