"""The race to a stated error (docs/records.md): what trainings by several recipes take to it in
processor seconds and FLOPs, from the errors of their snapshots, and where they end."""

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np

from looplab.conf.mistakes import ConfigError, RunError
from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.bootstrap import Floats, bootstrap
from looplab.evaluation.errors import ErrorSettings, model_errors
from looplab.evaluation.groups import labelled
from looplab.evaluation.load import load_run
from looplab.evaluation.statistics import Estimate, NotMeasured, over_seeds
from looplab.show.panel import Curve, Panel, file_name, mean_of_seeds
from looplab.training.assemble import build_curriculum, trained_loops
from looplab.training.run_folder.checkpoint import snapshots_of
from looplab.training.run_folder.metrics import Metrics
from looplab.training.run_folder.run import Run, RunFolder

from .evidence import Evidence, highest
from .flops import Flops
from .question import Result, batches, prompts_of

_COSTS = {"cpu_seconds": "processor seconds of training", "flops": "FLOPs of training"}
# What training has taken up to a snapshot, and its error there, with the interval's upper end.
Point = dict[str, float]


def measure(
    runs: Sequence[Run], settings: EvaluationConfig, targets: Mapping[str, Mapping[str, Any]] = {}
) -> Result:
    """Measure every snapshot of the runs on `settings.prompts` prompts. `targets` has, by task, the
    `error` to reach, over the task's divisor, and the numbers of examples `k` that it is the mean
    of.

    Each of the `races`, one a task, has its `task`, `target` and `k`, and in the order of the runs
    `rows`, one for each recipe and settings: a `label`, and by seed the points of its `trainings`.
    ConfigError for a task without a target, RunError for runs without equal snapshots.
    """
    races = []
    for task in dict.fromkeys(run.config.task.name for run in runs):
        entrants = [run for run in runs if run.config.task.name == task]
        target = targets.get(task)
        points = entrants[0].config.task.points
        if target is None or max(target["k"]) >= points:
            problem = f"must have targets for {task}, its k at most {points - 1}"
            raise ConfigError("settings", f"{problem}: {{targets: {{{task}: {{error: , k: []}}}}}}")
        k = list(target["k"])
        rows = [
            {"label": label, "trainings": _trainings(seeds, k, settings)}
            for label, seeds in _by_recipe(entrants).items()
        ]
        races.append({"task": task, "target": target["error"], "k": k, "rows": rows})
    return {"races": races}


def panels(result: Result) -> list[Panel]:
    """The error of each race by either cost."""
    return [_panel(cost, race) for race in result["races"] for cost in _COSTS]


def _by_recipe(runs: Sequence[Run]) -> dict[str, Sequence[Run]]:
    """The runs of each recipe, and of the settings in which those of one recipe differ."""
    seeds: dict[str, Sequence[Run]] = {}
    for recipe in dict.fromkeys(run.config.recipe for run in runs):
        groups = labelled([run for run in runs if run.config.recipe == recipe])
        for label, group in groups:
            seeds[f"{recipe}, {label}" if len(groups) > 1 else recipe] = group.runs
    return seeds


def _trainings(
    runs: Sequence[Run], k: list[int], settings: EvaluationConfig
) -> dict[str, list[Point]]:
    """The points of each seed's training."""
    # Seeds are averaged snapshot by snapshot: all need the same steps.
    steps = max((list(snapshots_of(run.path)) for run in runs), key=len)
    for run in runs:
        if list(snapshots_of(run.path)) != steps or len(steps) < 2 or steps[-1] != run.step:
            raise RunError(
                f"{run.path} has no snapshots up to its last step, or others than its other seeds: "
                "train it again with training.snapshots and again=true, or in another folder"
            )
    return {str(run.config.seed): _course(run, k, settings) for run in runs}


def _course(run: Run, k: list[int], settings: EvaluationConfig) -> list[Point]:
    """The points of a training: errors at the last loop, averaged over `k`, prompt by prompt."""
    records, _ = Metrics(RunFolder(run.path).metrics).read()
    seconds = {record["step"]: record["cpu_seconds"] for record in records}
    flops = Flops(run.config, run.model, build_curriculum(run.config, run.task))
    loops = trained_loops(run.config)
    at_end = ErrorSettings((loops,), loops)
    prompts = prompts_of(run, settings)
    course: list[Point] = []
    for step, folder in snapshots_of(run.path).items():
        model = load_run(folder).model
        by_batch = []
        for batch in batches(prompts, settings.batch_size):
            by_batch.append(model_errors(model, run.task, batch, at_end)[f"at_{loops}"])
        errors = np.concatenate(by_batch)[:, k].mean(1, dtype=np.float64)
        # The upper end decides that a target is reached, not the mean.
        mean, _, high = bootstrap(errors, settings.resamples, settings.seed)
        taken: Point = {"step": step, "cpu_seconds": seconds[step], "flops": flops(step)}
        course.append(taken | {"error": float(mean), "high": float(high)})
    return course


def _panel(cost: str, race: Result) -> Panel:
    """The error of each row by what training has taken, means over seeds at each snapshot."""
    curves = []
    for row in race["rows"]:
        # Seeds take other times to the same snapshot: x is their mean.
        x = _of_points(row, cost).mean(0)
        interval = mean_of_seeds(_of_points(row, "error"), log=True)
        recipe, *_ = row["label"].split(",")
        curves.append(Curve.of(row["label"], recipe, interval, x=x.tolist()))
    name = f"error_by_{cost}-{file_name(race['task'])}"
    title = race["task"].replace("_", " ")
    axes = (_COSTS[cost], f"error at k = {', '.join(map(str, race['k']))}")
    levels = {"target": race["target"]}
    return Panel(name, title, *axes, curves[0].x or (), curves, log="y", levels=levels)


def _of_points(row: Result, key: str) -> Floats:
    """A number of a row's points, [seeds, snapshots]."""
    seeds = []
    for course in row["trainings"].values():
        seeds.append([point[key] for point in course])
    return np.array(seeds)


def reached(course: Sequence[Point], target: float) -> Point | None:
    """The first point whose whole interval over prompts lies at or under the target."""
    return next((point for point in course if point["high"] <= target), None)


def _described(race: Result) -> str:
    """The number of seeds of each row that reach the target, and when, in medians over them."""
    rows = []
    for row in race["rows"]:
        points = [reached(course, race["target"]) for course in row["trainings"].values()]
        there = [point for point in points if point]
        count = f"{len(there)} of {len(points)} seeds"
        rows.append(f"{row['label']} reaches {race['target']:g} in {count}")
        if there:
            steps = median(point["step"] for point in there)
            seconds = median(point["cpu_seconds"] for point in there)
            rows.append(f"there after {steps:,.0f} steps and {seconds:.3g} s")
    return f"{race['task']}: {', '.join(rows)}"


def seconds_of_first_over_last(evidence: Evidence) -> Estimate:
    """The processor seconds to the stated error, of the first recipe over the last, by seed: the
    geometric mean over tasks.

    A training of the first recipe that does not reach the error takes more than all its seconds:
    these count, and the interval has no upper end."""
    evidence.where()
    races = evidence.result("time_to_quality", "races")
    ratios = []
    at_least = False
    for seed in _common_seeds(races):
        logs = []
        for race in races:
            first = race["rows"][0]["trainings"][seed]
            last = race["rows"][-1]["trainings"][seed]
            fast = reached(last, race["target"])
            if fast is None:
                raise NotMeasured(_described(race))
            slow = reached(first, race["target"])
            at_least |= slow is None
            seconds = (slow or first[-1])["cpu_seconds"]
            logs.append(math.log(seconds / fast["cpu_seconds"]))
        ratios.append(math.exp(np.mean(logs)))
    estimate = over_seeds(ratios, log=True)
    notes = list(map(_described, races))
    if at_least:
        notes.insert(0, "at least: what does not reach it counts to its end")
        estimate = estimate._replace(high=math.inf)
    return estimate._replace(note="; ".join(notes))


def _common_seeds(races: Sequence[Mapping[str, Any]]) -> list[str]:
    """The seeds that the first and the last recipe of every race were trained with."""
    seeds = []
    for race in races:
        for place in (0, -1):
            seeds.append(set(race["rows"][place]["trainings"]))
    return sorted(set.intersection(*seeds))


def largest_end_over_target(evidence: Evidence) -> Estimate:
    """The mean error at the last step of the last recipe over the stated one, the largest over
    tasks.

    The note has each seed's error, and the p of a one-sided t-test over seeds."""
    from scipy import stats  # takes a second

    evidence.where()
    estimates = []
    notes = []
    for race in evidence.result("time_to_quality", "races"):
        row = race["rows"][-1]
        errors = np.array([course[-1]["error"] for course in row["trainings"].values()])
        estimates.append(over_seeds(errors / race["target"]))
        p = stats.ttest_1samp(errors, race["target"], alternative="less").pvalue
        listed = ", ".join(f"{error:.4f}" for error in errors)
        notes.append(f"{race['task']}, {row['label']}: {listed} (p = {p:.2g})")
    largest = highest(estimates)
    return largest._replace(note="; ".join(notes))
