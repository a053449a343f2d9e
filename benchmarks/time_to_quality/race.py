"""A race: trainings by several recipes, each measured after equal parts of its steps, and what they
take to the target, as text, JSON and pictures.

print(race(QualitySettings(task="linear"), ["training.ema_decay=0"]))
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import stats

from looplab.conf.checksum import key_of
from looplab.conf.compose import commands
from looplab.conf.mistakes import ConfigError, RunError
from looplab.conf.schema import Config, Shift
from looplab.evaluation.bootstrap import Floats, bootstrap
from looplab.evaluation.drawing import save_panels
from looplab.evaluation.errors import ErrorSettings, evaluation_prompts, model_errors
from looplab.evaluation.evaluate_run import resolved
from looplab.evaluation.kept import shown
from looplab.evaluation.measure import Measure, evaluation_sources
from looplab.evaluation.panel import Curve, Panel, mean_of_seeds
from looplab.evaluation.remarks import shared
from looplab.evaluation.tables import Table, document
from looplab.experiments.plan import Flops
from looplab.training import train
from looplab.training.assemble import build_curriculum, build_model, build_task, trained_loops
from looplab.training.device import place_exactly
from looplab.training.jobs import run_jobs
from looplab.training.run_folder.files import read_record, write_record
from looplab.training.run_folder.run import Run, RunFolder, other_code, run_folder, some_files
from looplab.training.run_folder.sources import changed_files

from .settings import QualitySettings, Target, target_of

SHIFTS: tuple[Shift, ...] = ("scaled_x_0.333", "scaled_x_2", "skewed_covariance", "random_orthants")
_RESAMPLES = 1000
_COSTS = ("step", "cpu_seconds", "seconds", "flops")
_AXES = {"cpu_seconds": "processor seconds of training", "flops": "FLOPs of training"}
# A measurement: `error` after `step` steps with the `low` and `high` ends of its 90 % interval, and
# the costs of training up to it.
Point = dict[str, Any]


def race(settings: QualitySettings, words: Sequence[str] = ()) -> str:
    """Train what is not trained yet, write time_to_quality.json and figures; returns the text to
    print.

    Raises ConfigError for invalid settings, RunError, after all else is written and printed, if a
    training failed.
    """
    target = target_of(settings)
    # Of all runs whose measurements have the same settings.
    request = [settings.task, settings.prompts, list(target.k), settings.measurements]
    task_folder = Path(settings.folder) / f"{settings.task}-{settings.scale}-{key_of(request, 6)}"
    row_words = {recipe: [f"recipe={recipe}"] for recipe in settings.recipes}
    for recipe in settings.recipes:
        for variant in settings.variants:
            row_words[f"{recipe} {variant}"] = [f"recipe={recipe}", *variant.split()]
    rows = {
        label: [
            _config(settings, [*words, *own], seed, task_folder) for seed in range(settings.seeds)
        ]
        for label, own in row_words.items()
    }
    points = min(configs[0].task.points for configs in rows.values())
    if max(target.k) >= points:
        problem = f"must be at most {points - 1} at these settings, got {max(target.k)}"
        raise ConfigError("k", problem)
    jobs = [
        Raced(f"{label}, seed {config.seed}", config, settings, target)
        for label, configs in rows.items()
        for config in configs
    ]
    outcomes = run_jobs(jobs, settings.jobs, task_folder / "logs")
    results = iter(outcomes)
    entries: list[dict[str, Any]] = []
    for label, configs in rows.items():
        of_row = [next(results).result for _ in configs]
        base = entries[0]["results"] if entries else of_row
        entry = {"label": label, "track": _track(settings, configs[0])}
        entries.append(entry | row_numbers(of_row, base, settings, target))
    failures = [
        f"{job.name}: {outcome.failure}"
        for job, outcome in zip(jobs, outcomes, strict=True)
        if outcome.failure
    ]
    folder = task_folder / f"race-{key_of([asdict(settings), list(words)], 8)}"
    figures = jobs[0].config.figures
    content = {
        "settings": asdict(settings), "words": list(words), "target": target._asdict(),
        "rows": entries, "failed": failures, "figures": figures.plain(),
    }  # fmt: skip

    def draw() -> list[Path]:
        title = f"{settings.task}, scale={settings.scale}, seeds: {settings.seeds}"
        lines = [*_remarks(entries), *([f"with {' '.join(words)}"] if words else [])]
        return save_panels(folder / "figures", [*panels(entries, target)], figures, title, lines)

    shown(folder / "time_to_quality.json", "race", content, draw)
    text = report(entries, settings, target, words)
    text += f"\n\n{folder}: time_to_quality.json, figures/"
    if failures:
        print(text, flush=True)
        raise RunError(f"{len(failures)} of {len(jobs)} trainings failed; the first: {failures[0]}")
    return text


def _config(settings: QualitySettings, words: Sequence[str], seed: int, folder: Path) -> Config:
    """The configuration of one training; later words override earlier ones of the same name."""
    by_name = {word.partition("=")[0]: word for word in words}
    words = [*settings.groups, *by_name.values(), f"seed={seed}", f"folder={folder}"]
    config = commands(words)[0].config
    evaluation = replace(config.evaluation, prompts=settings.prompts, max_loops=None)
    return replace(config, evaluation=evaluation)


def _track(settings: QualitySettings, config: Config) -> str:
    """A, B, or neither, as defined in `--help`."""
    standard = commands(settings.groups)[0].config
    if config.task != standard.task:
        return "other prompts"
    same_model = (config.model, config.loops) == (standard.model, standard.loops)
    if same_model and config.training.targets == "outputs":
        return "A"
    ours, theirs = (
        sum(each.numel() for each in build_model(config, build_task(config)).parameters())
        for config in (config, standard)
    )
    return "B" if ours <= theirs else "a larger model"


@dataclass(frozen=True)
class Raced:
    """A training with measurements in its course, stored in quality.json of its run folder."""

    name: str  # for a user
    config: Config
    settings: QualitySettings
    target: Target

    def __call__(self) -> dict[str, Any]:
        """Continue this training until it reaches the target or its last step; returns its
        `points`, the `sources` that they depend on, remarks on the code and, after the last step,
        the errors `at_3b` and on `shifts`."""
        torch.set_num_threads(self.settings.threads)
        folder, steps = run_folder(self.config), self.config.training.steps
        folder.path.parent.mkdir(parents=True, exist_ok=True)
        result = self._stored(folder)
        parts = range(1, self.settings.measurements + 1)
        measured_at = sorted({-(-steps * part // len(parts)) for part in parts})
        while not self._done(points := [*result.get("points", [])]):
            step = points[-1]["step"] if points else 0
            log_path = folder.path.with_suffix(".txt")
            with open(log_path, "a", encoding="utf-8") as log, redirect_stdout(log):
                run = train(self.config, until=next(each for each in measured_at if each > step))
            points.append(self._point(run, folder))
            print(f"{self.name}: {self._described(points[-1])}", flush=True)
            result = {"points": points, "sources": self._sources()}
            if run.step == steps:
                result |= self._final_errors(run)
            write_record(folder.path / "quality.json", "quality", result)
        changes = {
            "trained": other_code(folder.made_with(), self.config),
            "measured": changed_files(result.get("sources", {}), self._sources()),
        }
        result["remarks"] = [
            f"{action} by other code: {some_files(files)} changed since"
            for action, files in changes.items()
            if files
        ]
        return result

    def describe(self, result: Mapping[str, Any]) -> str:
        """The step at which the target was reached, if it was, and the last error."""
        last, first = self._described(result["points"][-1]), reached(result, self.target)
        if first is None:
            return f"not reached: {last}"
        return (
            f"reached after {first['step']:,} steps, {first['cpu_seconds']:.0f} CPU s; last {last}"
        )

    def _described(self, point: Point) -> str:
        return (
            f"error {point['error']:.4f} ({point['low']:.4f} to {point['high']:.4f}) after "
            f"{point['step']:,} of {self.config.training.steps:,} steps, "
            f"{point['cpu_seconds']:.0f} CPU s"
        )

    def _stored(self, folder: RunFolder) -> dict[str, Any]:
        """The stored measurements up to the step that the training is at."""
        record = read_record(folder.path / "quality.json", "quality")
        if record.problem:
            path = folder.path / "quality.json"
            print(f"{path} {record.problem}; measured on from here", flush=True)
        result: dict[str, Any] = record.content or {}
        at = folder.status()["step"]
        points = [point for point in result.get("points", []) if point["step"] <= at]
        return result | {"points": points} if points else {}

    def _done(self, points: Sequence[Point]) -> bool:
        at_end = bool(points) and points[-1]["step"] >= self.config.training.steps
        at_target = reached({"points": points}, self.target) is not None
        return at_end or (at_target and not self.settings.to_end)

    def _sources(self) -> dict[str, str]:
        """The source files that measurements depend on."""
        return evaluation_sources(build_task(self.config), self.config.evaluation)

    def _point(self, run: Run, folder: RunFolder) -> Point:
        interval = bootstrap(self._errors(run, trained_loops(run.config)), _RESAMPLES, seed=0)
        status = folder.status()
        flops = Flops(run.config, run.model, build_curriculum(run.config, run.task))
        return {
            "step": run.step,
            "seconds": float(status["seconds"]),
            "cpu_seconds": float(status["cpu_seconds"]),
            "flops": flops(run.step),
            "error": float(interval.mean),
            "low": float(interval.low),
            "high": float(interval.high),
        }

    def _errors(self, run: Run, loops: int) -> Floats:
        """Each evaluation prompt's error at the last of these loops, averaged over k."""
        evaluation, size = run.config.evaluation, run.config.evaluation.batch_size
        prompts = evaluation_prompts(
            run.task, evaluation.prompts, run.config.task.points, evaluation.seed
        )
        model = place_exactly(run.config.device).prepare(run.model)
        settings = ErrorSettings((loops,), loops)
        errors = [
            model_errors(model, run.task, prompts[first : first + size], settings)[f"at_{loops}"]
            for first in range(0, len(prompts), size)
        ]
        return np.concatenate(errors)[:, list(self.target.k)].mean(1, dtype=np.float64)

    def _final_errors(self, run: Run) -> dict[str, Any]:
        result: dict[str, Any] = {}
        b = trained_loops(run.config)
        if run.config.model.family != "standard":
            result["at_3b"] = float(self._errors(run, 3 * b).mean())
        if run.task.loss == "squared_error":
            evaluation = replace(run.config.evaluation, loops=None, max_loops=b, shifts=SHIFTS)
            measure = Measure(run, resolved(run, evaluation), run.config.device)
            shifted = {
                name: measure.model(measure.shifted(name), name)["model_at_b"] for name in SHIFTS
            }
            result["shifts"] = {
                name: float(errors[:, list(self.target.k)].mean())
                for name, errors in shifted.items()
            }
        return result


def reached(result: Mapping[str, Any] | None, target: Target) -> Point | None:
    """A training's first measurement whose whole interval is at or below the target; None without
    one, or for a training that failed."""
    points = result["points"] if result else []
    return next((point for point in points if point["high"] <= target.error), None)


def row_numbers(
    results: Sequence[Any], base: Sequence[Any], settings: QualitySettings, target: Target
) -> dict[str, Any]:
    """A row of time_to_quality.json, from its trainings' results and the first row's (None for one
    that failed), seed by seed: the medians of what the target took, None where fewer than half of
    the seeds reached it; the ratio to the first row; the results; and of those at their last
    measurement the errors, as far as they are measured, with the p of a t-test against the
    target."""
    first = [reached(result, target) for result in results]
    medians = {
        name: statistics.median([point[name] if point else math.inf for point in first])
        for name in _COSTS
    }
    finished = [result for result in results if result]
    last: dict[str, Any] = {}
    if finished:
        last["errors"] = [result["points"][-1]["error"] for result in finished]
        if settings.to_end and len(finished) > 1:
            test = stats.ttest_1samp(last["errors"], target.error, alternative="less")
            last["p"] = float(test.pvalue)
        if at_3b := [result["at_3b"] for result in finished if "at_3b" in result]:
            last["at_3b"] = at_3b
        if shifts := [result["shifts"] for result in finished if "shifts" in result]:
            last["shifts"] = {name: [each[name] for each in shifts] for name in shifts[0]}
    return {
        "median": {name: each if math.isfinite(each) else None for name, each in medians.items()},
        "ratio": _ratio([reached(result, target) for result in base], first),
        "results": list(results),
        "last": last,
    }


def _ratio(base: Sequence[Point | None], other: Sequence[Point | None]) -> dict[str, float] | None:
    """The base's processor seconds over another's: the mean of the logarithms over seeds, and its
    90 % interval (Student's t). None if a seed of either did not reach the target."""
    pairs = [(a, b) for a, b in zip(base, other, strict=True) if a is not None and b is not None]
    if len(pairs) < len(base):
        return None
    logs = [math.log(a["cpu_seconds"] / b["cpu_seconds"]) for a, b in pairs]
    mean = statistics.mean(logs)
    if len(logs) == 1:
        return {"ratio": math.exp(mean)}
    half = stats.t.ppf(0.95, len(logs) - 1) * stats.sem(logs)
    return {"ratio": math.exp(mean), "low": math.exp(mean - half), "high": math.exp(mean + half)}


def report(
    rows: Sequence[Mapping[str, Any]],
    settings: QualitySettings,
    target: Target,
    words: Sequence[str] = (),
) -> str:
    """The rows of a race as text; `words` are the settings of run.py that were given for all its
    trainings."""
    head = ["recipe", "track", "reached", "steps", "CPU s", "s", "PFLOP", "ratio of CPU s"]
    lines = []
    for row in rows:
        count = sum(reached(result, target) is not None for result in row["results"])
        median, ratio = row["median"], row["ratio"] or {}
        ends = f" ({ratio['low']:.2f} to {ratio['high']:.2f})" if "low" in ratio else ""
        lines.append(
            [
                *(row["label"], row["track"], f"{count} of {len(row['results'])}"),
                _number(median["step"], ","),
                _number(median["cpu_seconds"], ".0f"),
                _number(median["seconds"], ".0f"),
                _number(median["flops"] and median["flops"] / 1e15, ".3g"),
                f"{_number(ratio.get('ratio'), '.2f')}{ends}",
            ]
        )
    return document(
        [
            *_remarks(rows),
            f"{settings.task}, scale={settings.scale}, model={settings.model}: error "
            f"{target.error:g} at {target.at}, seeds: {settings.seeds}, threads of a training: "
            f"{settings.threads}",
            *([f"with {' '.join(words)}"] if words else []),
            "",
            Table(head, lines),
            "",
            "Medians over seeds; a seed that did not reach the target counts as the slowest.",
            "",
            *(f"{row['label']}: {_ending(row, target)}" for row in rows),
        ]
    )


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def _ending(row: Mapping[str, Any], target: Target) -> str:
    """The errors at each training's last measurement, in words."""
    last = row["last"]
    if not last:
        return "every training failed"
    steps = dict.fromkeys(result["points"][-1]["step"] for result in row["results"] if result)
    after = ", ".join(f"{step:,}" for step in steps)
    parts = [f"last error {_list(last['errors'])} after {after} steps"]
    if "p" in last:
        parts[0] += (
            f", mean {statistics.mean(last['errors']):.4f} (under {target.error:g}: one-sided "
            f"t-test, p = {last['p']:.2g})"
        )
    if "at_3b" in last:
        parts.append(f"at 3 b {_list(last['at_3b'])}")
    parts += [f"{name} {_list(values)}" for name, values in last.get("shifts", {}).items()]
    return "; ".join(parts)


def _list(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.4f}" for value in values)


def _remarks(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The remarks on the code of the rows' trainings, each once."""
    by_label: dict[str, dict[str, None]] = {}
    for row in rows:
        lines = [line for result in row["results"] if result for line in result["remarks"]]
        by_label[row["label"]] = dict.fromkeys(lines)
    return shared({label: list(lines) for label, lines in by_label.items()})


def panels(rows: Sequence[Mapping[str, Any]], target: Target) -> Iterator[Panel]:
    """The error of each recipe against processor seconds and against FLOPs: the mean over seeds at
    each measurement that all of them have, with its 90 % interval over seeds."""
    for name, label in _AXES.items():
        curves = []
        for row in rows:
            trainings = [result["points"] for result in row["results"] if result]
            if not trainings:
                continue
            length = min(map(len, trainings))
            x, errors = (
                np.array([[point[key] for point in points[:length]] for points in trainings])
                for key in (name, "error")
            )
            kind = row["label"].partition(" ")[0]  # a recipe's variants are named after it
            curves.append(Curve.of(row["label"], kind, mean_of_seeds(errors), x=x.mean(0).tolist()))
        if curves:
            least = min(target.error, *(value for curve in curves for value in curve.mean if value))
            yield Panel(
                f"error_by_{name}", f"Error by {label}", label, f"error at {target.at}",
                curves[0].x or (), curves, log="y", limits=(least / 1.5, None),
                levels={"target": target.error},
            )  # fmt: skip
