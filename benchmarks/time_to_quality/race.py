"""The whole of a race: compose its trainings, run them, report, write.

print(race(QualitySettings(task="linear"), ["training.ema_decay=0"]))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from conf.checks import ConfigError, RunError
from conf.checksum import checksum_of
from conf.compose import commands
from conf.schema import Config
from conf.sizes import parameters
from evaluation.baselines import optimal, solvers
from evaluation.errors import evaluation_prompts
from training.assemble import build_task
from training.device import place
from training.files import write_json
from training.objective import check_targets
from training.processes import run_jobs

from .pictures import draw
from .raced import Raced
from .report import Row, report
from .settings import QualitySettings
from .targets import Target, target_of

_PROMPTS = 512  # on which the Bayes error is found


def race(settings: QualitySettings, words: Sequence[str] = ()) -> str:
    """Train what is not trained yet, write time_to_quality.json and figures; what is shown of it.

    Raises ConfigError for settings that cannot be and a target that no predictor reaches, RunError,
    when all else is written and printed, where a training failed.
    """
    target = target_of(settings)
    where = Path(settings.folder) / _digest(settings, target)
    rows = {
        label: [_config(settings, [*words, *more], seed, where) for seed in _seeds(settings)]
        for label, more in _labels(settings).items()
    }
    _check(rows, target)
    jobs = [
        Raced(
            f"{label}, seed {config.seed}", config, target.error, target.k,
            settings.measurements, settings.to_end, settings.shifts, settings.threads,
        )
        for label, configs in rows.items()
        for config in configs
    ]  # fmt: skip
    outcomes = run_jobs(jobs, settings.jobs, where / "logs")
    found = iter(outcomes)
    made = [
        Row(label, _track(settings, configs[0]), [next(found).result for _ in configs])
        for label, configs in rows.items()
    ]
    failed = [
        f"{job.name}: {o.failure}" for job, o in zip(jobs, outcomes, strict=True) if o.failure
    ]
    text, content = report(made, settings, target, words)
    folder = where / f"race-{checksum_of([asdict(settings), list(words)])[:8]}"
    folder.mkdir(parents=True, exist_ok=True)
    write_json(
        folder / "time_to_quality.json",
        {"settings": asdict(settings), "words": list(words), "target": target._asdict()}
        | content
        | {"failed": failed},
    )
    draw(made, settings, target, words, folder / "figures")
    text += f"\n\n{folder}: time_to_quality.json, figures/"
    if failed:
        print(text, flush=True)
        raise RunError(f"{len(failed)} of {len(jobs)} trainings failed; the first: {failed[0]}")
    return text


def _seeds(settings: QualitySettings) -> range:
    return range(settings.first_seed, settings.first_seed + settings.seeds)


def _labels(settings: QualitySettings) -> dict[str, list[str]]:
    """The words that make each row, by its label: the recipes, then each variant of them."""
    labels = {recipe: [f"recipe={recipe}"] for recipe in settings.recipes}
    for recipe in settings.recipes:
        for variant in settings.variants:
            labels[f"{recipe} {variant}"] = [f"recipe={recipe}", *variant.split()]
    return labels


def _config(settings: QualitySettings, words: Sequence[str], seed: int, where: Path) -> Config:
    """One training; what a variant says stands above what all are given."""
    said = {word.partition("=")[0]: word for word in words}
    groups = [f"{name}={getattr(settings, name)}" for name in ("task", "scale", "model")]
    config = commands([*groups, *said.values(), f"seed={seed}", f"folder={where}"])[0].config
    evaluation = replace(config.evaluation, prompts=settings.prompts, max_loops=None)
    return replace(config, evaluation=evaluation)


def _check(rows: dict[str, list[Config]], target: Target) -> None:
    """Refuses what cannot be trained or reached, before anything is trained."""
    for configs in rows.values():
        config = configs[0]
        task = build_task(config)
        place(config.device, config.precision, config.backend)
        check_targets(config.training.targets, task)
        if max(target.k) >= config.task.points:
            most = config.task.points - 1
            raise ConfigError("k", f"must be at most {most} at these settings, got {max(target.k)}")
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
    """A, B, or neither, as `--help` says."""
    words = [f"{name}={getattr(settings, name)}" for name in ("task", "scale", "model")]
    standard = commands(words)[0].config
    if config.task != standard.task:
        return "other prompts"
    same = (config.model, config.loops) == (standard.model, standard.loops)
    if same and config.training.targets == "outputs":
        return "A"
    return "B" if parameters(config) <= parameters(standard) else "a larger model"


def _digest(settings: QualitySettings, target: Target) -> str:
    """Run folders are kept apart by what their measurements depend on beside them."""
    asked = [settings.task, settings.prompts, list(target.k), settings.measurements]
    return f"{settings.task}-{settings.scale}-{checksum_of(asked)[:6]}"
