"""A race: compose its trainings, run them, report, write.

print(race(QualitySettings(task="linear"), ["training.ema_decay=0"]))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from looplab.conf.checksum import key_of
from looplab.conf.compose import commands
from looplab.conf.mistakes import ConfigError, RunError
from looplab.conf.schema import Config
from looplab.evaluation.baselines import optimal, solvers
from looplab.evaluation.errors import evaluation_prompts
from looplab.training.assemble import build_model, build_task
from looplab.training.device import place
from looplab.training.jobs import Workers, run_jobs
from looplab.training.objective import check_targets
from looplab.training.run_folder.files import write_json

from .raced import Raced
from .report import Row, draw, report
from .settings import QualitySettings, Target, target_of

_PROMPTS = 512  # that the Bayes error is computed on


def race(settings: QualitySettings, words: Sequence[str] = ()) -> str:
    """Train what is not trained yet, write time_to_quality.json and figures; returns the text to
    print.

    Raises ConfigError for invalid settings and a target that no predictor reaches, RunError, after
    all else is written and printed, if a training failed.
    """
    target = target_of(settings)
    # Of all runs whose measurements have the same settings.
    request = [settings.task, settings.prompts, list(target.k), settings.measurements]
    key = f"{settings.task}-{settings.scale}-{key_of(request, 6)}"
    task_folder = Path(settings.folder) / key
    seeds = range(settings.first_seed, settings.first_seed + settings.seeds)
    row_configs = {
        label: [_config(settings, [*words, *row_words], seed, task_folder) for seed in seeds]
        for label, row_words in _labels(settings).items()
    }
    _check(row_configs, target)
    jobs = [
        Raced(
            f"{label}, seed {config.seed}", config, target.error, target.k,
            settings.measurements, settings.to_end, settings.shifts, settings.threads,
        )
        for label, configs in row_configs.items()
        for config in configs
    ]  # fmt: skip
    outcomes = run_jobs(jobs, Workers(settings.jobs, task_folder / "logs"))
    results = iter(outcomes)
    rows = [
        Row(label, _track(settings, configs[0]), [next(results).result for _ in configs])
        for label, configs in row_configs.items()
    ]
    failures = [
        f"{job.name}: {outcome.failure}"
        for job, outcome in zip(jobs, outcomes, strict=True)
        if outcome.failure
    ]
    text, content = report(rows, settings, target, words)
    folder = task_folder / f"race-{key_of([asdict(settings), list(words)], 8)}"
    folder.mkdir(parents=True, exist_ok=True)
    write_json(
        folder / "time_to_quality.json",
        {"settings": asdict(settings), "words": list(words), "target": target._asdict()}
        | content
        | {"failed": failures},
    )
    draw(rows, settings, target, words, folder / "figures")
    text += f"\n\n{folder}: time_to_quality.json, figures/"
    if failures:
        print(text, flush=True)
        raise RunError(f"{len(failures)} of {len(jobs)} trainings failed; the first: {failures[0]}")
    return text


def _labels(settings: QualitySettings) -> dict[str, list[str]]:
    """The words of each row, by its label: the recipes, then their variants."""
    labels = {recipe: [f"recipe={recipe}"] for recipe in settings.recipes}
    for recipe in settings.recipes:
        for variant in settings.variants:
            labels[f"{recipe} {variant}"] = [f"recipe={recipe}", *variant.split()]
    return labels


def _config(settings: QualitySettings, words: Sequence[str], seed: int, folder: Path) -> Config:
    """The configuration of one training; later words override earlier ones of the same name."""
    by_name = {word.partition("=")[0]: word for word in words}
    groups = [f"{name}={getattr(settings, name)}" for name in ("task", "scale", "model")]
    config = commands([*groups, *by_name.values(), f"seed={seed}", f"folder={folder}"])[0].config
    evaluation = replace(config.evaluation, prompts=settings.prompts, max_loops=None)
    return replace(config, evaluation=evaluation)


def _check(row_configs: dict[str, list[Config]], target: Target) -> None:
    """Raises ConfigError for a race that cannot be trained or a target below the Bayes error."""
    for configs in row_configs.values():
        config = configs[0]
        task = build_task(config)
        place(config.device, config.precision, config.backend)
        check_targets(config.training.targets, task)
        if max(target.k) >= config.task.points:
            limit = config.task.points - 1
            raise ConfigError(
                "k", f"must be at most {limit} at these settings, got {max(target.k)}"
            )
        name = optimal(task)
        if name is None:
            continue
        prompts = evaluation_prompts(task, _PROMPTS, config.task.points, config.evaluation.seed)
        xs, ys = prompts.xs.double().numpy(), prompts.ys.double().numpy()
        (solve,) = solvers(name, task).values()
        errors = np.square(solve(xs, ys, xs) - ys)[:, list(target.k)] / task.divisor
        best = float(errors.mean())
        if target.error < best:
            raise ConfigError(
                "target",
                f"is {target.error:g}: the Bayes-optimal predictor's error is {best:.4g} there",
            )


def _track(settings: QualitySettings, config: Config) -> str:
    """A, B, or neither, as defined in `--help`."""
    words = [f"{name}={getattr(settings, name)}" for name in ("task", "scale", "model")]
    standard = commands(words)[0].config
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
