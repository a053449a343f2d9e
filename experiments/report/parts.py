"""The parts of the page: experiments, comparisons, scaling laws and runs, from their files. A part
that was made before is stored under what it was made from, so that nothing is drawn again."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from looplab.conf.build import config_to_mapping, flatten
from looplab.conf.checksum import key_of
from looplab.conf.command import as_word
from looplab.conf.mistakes import ConfigError, RunError, one_line
from looplab.conf.saved import read_config
from looplab.conf.schema import Config
from looplab.conf.words import run_py
from looplab.evaluation.kept import found, kept, sha256_of
from looplab.evaluation.panel import Panel
from looplab.evaluation.remarks import remarks_of
from looplab.evaluation.style import kind_of
from looplab.training.assemble import build_task, trained_loops
from looplab.training.run_folder.files import Record, read_record
from looplab.training.run_folder.metrics import Metrics
from looplab.training.run_folder.run import RunFolder
from looplab.training.run_folder.sources import sources_of

from .figure import Figure, figure, short
from .folders import anchor, run_of

_KIND = "report part"


class Kept:
    """The parts in a folder. `used` and `made` count those that were found and the others."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.used, self.made = folder, 0, 0
        self._code = sources_of("evaluation", "experiments")
        self._names: set[str] = set()

    def part(self, files: Sequence[Path], more: object, make: Callable[[], Any]) -> Any:
        """The part made from the content of these files and from `more`, plain values: the kept
        one, or that which `make` gives, plain values as well."""
        content = {path.name: sha256_of(path) for path in files}
        request = {"files": content, "more": more, "code": key_of(self._code)}
        self._names.add(f"{key_of(request)}.json")
        result = found(self.folder, _KIND, request)
        if result is not None:
            self.used += 1
            return result["part"]
        self.made += 1
        try:
            return kept(self.folder, _KIND, request, lambda: ({"part": make()}, None))["part"]
        except OSError:  # a folder that cannot be written to: drawn again the next time
            return make()

    def remove_others(self) -> None:
        """Remove the parts that were not asked for since this object was made."""
        for path in self.folder.glob("*.json"):
            if path.name not in self._names:
                path.unlink(missing_ok=True)


UNREADABLE = (KeyError, TypeError, ValueError, IndexError, AttributeError, RunError, OSError)
_SCALES = {"small": 0, "medium": 1, "paper": 2}


def experiment_part(path: Path, kept: Kept) -> dict[str, Any]:
    """A named experiment: its members, figures, verdicts and what is missing."""
    result = _content(read_record(path, "experiment"), path)
    members = [
        {
            **{key: member[key] for key in ("label", "seed", "step", "steps", "state", "remarks")},
            "run": str(member["run"]),
            "command": run_py(*member["words"]),
        }
        for member in result["members"]
    ]
    verdicts = [_verdict(verdict) for verdict in result["verdicts"]]
    command = result["command"]
    name = f"{result['experiment']}-{result['scale']}"
    figures = kept.part(
        [path], "experiment",
        lambda: [figure(Panel.read(panel), command, of=name) for panel in result["panels"]],
    )  # fmt: skip
    return {
        "id": anchor("experiment", path),
        **{key: result[key] for key in ("experiment", "title", "source", "scale", "missing")},
        "command": command,
        "members": members,
        "verdicts": verdicts,
        "figures": figures,
        "order": (str(result["experiment"]), _SCALES.get(result["scale"], 3)),
    }


def comparison_part(path: Path, kept: Kept) -> dict[str, Any]:
    """A comparison of runs on the same prompts."""
    result = _content(read_record(path, "comparison"), path)
    folder = path.parent.parent
    runs = [(run_of(folder, name) or folder / name).as_posix() for name in result["runs"]]
    command = run_py("action=compare", f"runs=[{','.join(runs)}]")

    def made() -> list[Figure]:
        from looplab.evaluation.comparison import run_labels  # these load torch
        from looplab.evaluation.figures import comparison_panels

        panels = comparison_panels(result, run_labels(result))  # type: ignore[arg-type]
        return [figure(panel, command, of=path.parent.name) for panel in panels]

    return {
        "id": anchor("comparison", path),
        "title": f"{str(result['task']).replace('_', ' ')}, d = {result['dims']}, "
        f"{result['prompts']} prompts",
        "path": path.parent.as_posix(),
        "remarks": list(result.get("remarks", [])),
        "command": command,
        "figures": kept.part([path], ["comparison", runs], made),
    }


def law_part(folder: Path, kept: Kept) -> dict[str, Any]:
    """The folder of a fitted scaling law."""
    path = folder / "scaling_law.json"
    result = _content(read_record(path, "scaling_law"), path)
    return {
        "id": anchor("law", folder),
        "title": folder.name,
        "text": result["verdict"],
        "remarks": [],
        **_drawn(path, result, "experiments.scaling_law", kept, folder.name),
    }


def _drawn(path: Path, result: dict[str, Any], module: str, kept: Kept, of: str) -> dict[str, Any]:
    """The command of a result with its settings, and the figures of its panels."""
    words = [
        f"{key}={as_word(value)}"
        for key, value in result["settings"].items()
        if value not in ([], None)
    ]
    command = shlex.join(["python", "-m", module, *words])
    panels = [Panel.read(panel) for panel in result["panels"]]
    figures = kept.part([path], module, lambda: [figure(each, command, of=of) for each in panels])
    return {"command": command, "figures": figures}


def _verdict(verdict: dict[str, Any]) -> dict[str, Any]:
    """A row of the table of claims, as text."""
    mean, low, high = (short(verdict[part]) for part in ("mean", "low", "high"))
    steps, of = verdict["steps"], verdict["published_steps"]
    return {
        **{key: verdict[key] for key in ("claim", "sentence", "source", "quantity", "published")},
        **{key: verdict[key] for key in ("seeds", "scale", "verdict", "note", "command")},
        "ours": mean if mean == "–" else f"{mean} ({low} to {high})",
        "line": f"{verdict['holds_if']} {verdict['line']:g}",
        "steps": f"{steps:,}" + (f" of {of:,}" if of is not None else ""),
    }


def _content(record: Record, path: Path) -> dict[str, Any]:
    """The content of a record; ValueError where there is none."""
    if record.content is None:
        raise ValueError(record.problem.removeprefix(f"{path} ") or "it is gone")
    return record.content


_FILES = ("config.yaml", "environment.json", "evaluation.json", "metrics.jsonl")
_ROOMS = "looplab|probing|openml_eval|evaluation|experiments|benchmarks"
_MODULE = re.compile(rf"(?:.*/)?((?:{_ROOMS})(?:/\w+)*)")


def run_part(path: Path, kept: Kept, *, with_figures: bool) -> tuple[dict[str, Any], list[str]]:
    """The part of a run, and a line for each of its files that cannot be used. Raises ConfigError
    or RunError for a folder whose configuration cannot be read."""
    config, folder = read_config(path), RunFolder(path)
    status = folder.status()
    step = int(status["step"])
    part = kept.part(
        [path / name for name in _FILES],
        [str(path), with_figures],
        lambda: _made(folder, config, with_figures),
    )
    lines = _remarks(path, config, step)
    if status["state"] not in ("finished", "new"):
        lines.insert(0, f"{status['state']} at step {step:,} of {config.training.steps:,}")
    return {
        **part,
        "id": anchor("run", path),
        "name": path.resolve().name,
        "path": path.as_posix(),
        "title": _title(config),
        "state": status["state"],
        "step": step,
        "steps": config.training.steps,
        "remarks": lines,
        "settings": _settings(config),
    }, part["problems"]


def _made(folder: RunFolder, config: Config, with_figures: bool) -> dict[str, Any]:
    """All that depends on the run's files alone."""
    path, problems = folder.path, list[str]()
    made_with = read_record(path / "environment.json", "environment")
    environment = made_with.content or {}
    problems += [made_with.problem] if made_with.problem else []
    command = as_typed(environment.get("command"))
    figures, error = _evaluation(path, with_figures, problems)
    figures += _training(folder, config, command, with_figures, problems)
    return {
        "figures": figures,
        "error": error,
        "command": command,
        "environment": {
            key: value if isinstance(value, str) else str(value)
            for key, value in environment.items()
            if key not in ("command", "sources", "continued") and value is not None
        },
        "problems": problems,
    }


def _evaluation(path: Path, with_figures: bool, problems: list[str]) -> tuple[list[Figure], str]:
    """The figures of evaluation.json, and the last query's error at b loops."""
    record = read_record(path / "evaluation.json", "evaluation")
    if record.content is None:
        problems += [record.problem] if record.problem else []
        return [], ""
    from looplab.evaluation.figures import evaluation_panels  # loads torch

    result: Any = record.content
    try:
        at_b = result["by_examples"]["model_at_b"]
        low, mean, high = (short(at_b[part][-1]) for part in ("low", "mean", "high"))
        panels = evaluation_panels(result) if with_figures else []
        figures = [figure(panel, result["command"], of=path.name) for panel in panels]
        return figures, f"{mean} ({low} to {high})"
    except UNREADABLE as error:
        problems.append(
            f"{path / 'evaluation.json'} has another form than this version's "
            f"({type(error).__name__}: {one_line(error)}); action=evaluate makes it anew"
        )
        return [], ""


def _training(
    folder: RunFolder, config: Config, command: str, with_figures: bool, problems: list[str]
) -> list[Figure]:
    from looplab.evaluation.figures import training_panels

    records, skipped = Metrics(folder.metrics).read()
    problems += [f"{folder.metrics}: {line}" for line in skipped[:1]]
    if len(skipped) > 1:
        problems[-1] += f", and {len(skipped) - 1} more lines"
    panels = training_panels(records, kind_of(config.model)) if with_figures else []
    return [figure(panel, command, of=folder.path.name) for panel in panels]


def _remarks(path: Path, config: Config, step: int) -> list[str]:
    try:
        return remarks_of(path, config, build_task(config), step)
    except (ConfigError, RunError, OSError):  # a task whose data are not here
        steps = config.training.steps
        return [f"training unfinished: {step:,} of {steps:,} steps"] if step != steps else []


def _title(config: Config) -> str:
    task, family = config.task, config.model.family
    name, unit = task.name.replace("_", " "), "layer" if family == "standard" else "loop"
    loops = trained_loops(config)
    units = f"{loops} {unit}{'s' if loops != 1 else ''}"
    return f"{name}, d = {task.dims}: {family}, {units}, seed {config.seed}"


def _settings(config: Config) -> dict[str, str]:
    """Every setting by its key, as the command line writes it."""
    flat = flatten(config_to_mapping(config))
    del flat["schema_version"], flat["folder"]
    return {key: as_word(value) for key, value in flat.items()}


def as_typed(recorded: Any) -> str:
    """The command that environment.json recorded (a script's path and its words) as it is typed in
    the project's folder; empty where none is known."""
    if not isinstance(recorded, str) or not recorded.strip():
        return ""
    script, *words = recorded.split(" ")
    with suppress(ValueError):  # an apostrophe of an earlier version's, which did not quote
        script, *words = shlex.split(recorded)
    if script.rpartition("/")[2] == "run.py":
        return run_py(*words)
    if script.rpartition("/")[2] == "looplab":
        return shlex.join(["looplab", *words])
    module = _MODULE.fullmatch(script.removesuffix(".py").removesuffix("/__main__"))
    if module:
        return shlex.join(["python", "-m", module[1].replace("/", "."), *words])
    return shlex.join([script, *words])
