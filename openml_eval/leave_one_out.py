"""Train on all tables but one and test on that one: for every table, model and seed of a command.

folder, result = leave_one_out(*asked(["held_out=720", "model=looped"]))
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from looplab.conf.checksum import key_of
from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config, EvaluationConfig
from looplab.evaluation.bootstrap import clustered_bootstrap
from looplab.evaluation.evaluator import weights_digest
from looplab.evaluation.kept import Arrays, RowCache, shown
from looplab.evaluation.load import load_run
from looplab.evaluation.plain import Fields
from looplab.evaluation.remarks import remarks
from looplab.show.drawing import save_panels
from looplab.training import Run, train
from looplab.training.assemble import build_task, trained_loops
from looplab.training.device import place_exactly
from looplab.training.jobs import processes_for, run_jobs
from looplab.training.progress import how_far
from looplab.training.run_folder.files import read_record
from looplab.training.run_folder.run import RunFolder, run_folder
from looplab.training.run_folder.sources import measured_by

from .report import accuracy_panel, printed
from .scoring import (
    FIRST_SEED,
    SOLVERS,
    Counts,
    model_answers,
    reference_answers,
    solver_answers,
    split_contexts,
)
from .settings import SHIPPED_CLASSIFIER, RunSettings
from .tables import Table, check_tables, read_table

KIND = "openml"
# What openml.json says of a training (nothing of solvers), and the right answers beside the number
# of rows asked about: [draws of contexts, groups, polarities or solvers, and one]; by the
# reference's protocol [draws, 3].
Scored = tuple[dict[str, Any], Counts]


def leave_one_out(
    settings: RunSettings, configs: Mapping[str, Config]
) -> tuple[Path, dict[str, Any]]:
    """Train and score the runs of a command, or only score its `run`; `configs` are the models' by
    family, to which tables and seeds are added. Writes openml.json and figures/ into a folder
    openml-<hash>; returns this folder and the content of openml.json, in which `failed` has a line
    on each run that failed.

    What is finished is found again. Raises ConfigError and RunError before anything is written, for
    invalid settings; KeyboardInterrupt or SystemExit at a signal, when every training has saved.
    """
    jobs, folder = _planned(settings, configs)
    first = jobs[0].config
    tables = {job.table.name: job.table for job in jobs}.values()
    outcomes = run_jobs(jobs, processes_for(len(jobs), settings.jobs, first), folder / "logs")
    results = list(zip(jobs, outcomes, strict=True))
    done = [(job, outcome.result) for job, outcome in results if outcome.result]
    kept_settings = asdict(settings)
    del kept_settings["jobs"]  # no number depends on it
    result = {
        "settings": kept_settings,
        "evaluation_seeds": settings.draw_count,
        "k": first.task.points - 1,
        "scale": first.scale,
        "resamples": first.evaluation.resamples,
        "seed": first.evaluation.seed,
        "tables": [table_entry(table, done, first.evaluation) for table in tables],
        "solvers": SOLVERS,
        "failed": [f"{job.name}: {outcome.failure}" for job, outcome in results if outcome.failure],
    }

    def make() -> list[Path]:
        return save_panels(folder / "figures", [accuracy_panel(result)], first.figures)

    drawn = result | {"figures": first.figures.plain()}
    shown(folder / "openml.json", KIND, drawn, make)
    return folder, result


def stored(settings: RunSettings, configs: Mapping[str, Config]) -> dict[str, Any] | None:
    """The content of the openml.json that `leave_one_out` wrote; None if there is none. Raises as
    it."""
    _, folder = _planned(settings, configs)
    return read_record(folder / "openml.json", KIND).content


@dataclass(frozen=True)
class Scoring:
    """Train a run, unless it is finished or given, and ask it about all rows of the table that it
    has not seen; or ask the `solvers`, from the same contexts. What is found is kept."""

    table: Table
    settings: RunSettings
    config: Config
    solvers: bool = False

    @property
    def model(self) -> str:
        """The column of its numbers: a family, or the name of a given run."""
        return Path(self.settings.run or self.config.model.family).resolve().name

    @property
    def name(self) -> str:
        """Table, and model and seed or solvers, for messages."""
        run = self.model if self.settings.run else f"{self.model}, seed {self.config.seed}"
        return f"{self.table.label}, {', '.join(SOLVERS) if self.solvers else run}"

    def __call__(self) -> Scored:
        """Raises as `train`, or as `load_run`."""
        cache = Path(self.config.folder, "openml-cache")
        if self.solvers:
            return {}, self._scores(cache, {"solvers": SOLVERS})
        estimator = None
        if self.settings.run:
            estimator = _estimator(self.settings, self.config)
            run = load_run(estimator.checkpoint)
        else:
            run = train(self.config)
            cache = run.path / "cache"
        place_exactly(self.config.device).prepare(run.model).eval()
        training_seconds = RunFolder(run.path).status().get("seconds")
        about = {
            "path": str(run.path),
            "seed": run.config.seed,
            "step": run.step,
            "seconds": training_seconds,
            "remarks": remarks(run),
        }
        content = {"weights": weights_digest(run.model), "loops": trained_loops(run.config)}
        if estimator is not None:
            content["n_orders"] = self.settings.n_orders
        return about, self._scores(cache, content, run, estimator)

    def _scores(
        self,
        cache: Path,
        content: Mapping[str, object],
        run: Run | None = None,
        estimator: Any = None,
    ) -> Counts:
        """The scores of a run, of its `estimator`, or of the solvers, from the cache, or computed
        draw by draw; `content` is what they depend on beside table and contexts."""
        cache.mkdir(parents=True, exist_ok=True)
        table = self.table
        settings = self.settings
        points = self.config.task.points
        code = [solver_answers] if estimator is None else [solver_answers, estimator]
        protocol = [settings.protocol, points, settings.contexts, settings.draw_count]
        # The table by its content: its name may stand for another file tomorrow.
        request = dict(content, table=table.sha256, scored=protocol, sources=measured_by(*code))

        def compute(draws: slice) -> Arrays:
            # `rows` below asks for one draw at a time.
            draw = draws.start
            split = split_contexts(len(table.ys), points - 1, settings.contexts, draw)
            if run is None or estimator is not None:
                scores = solver_answers(table, *split, estimator)
            elif settings.protocol == "corrected":
                scores = model_answers(run, table, *split)
            else:
                scores = reference_answers(run, table, points, FIRST_SEED + draw)
            return {"scores": scores[None]}

        return RowCache(cache).rows("tables", request, settings.draw_count, 1, compute)["scores"]

    def progress(self) -> str:
        """Step, loss and time left of its training."""
        if self.solvers or self.settings.run:
            return ""
        return how_far(run_folder(self.config).path, self.config.training.steps)

    def describe(self, result: Scored) -> str:
        """The accuracies: of a trained run with labels as they are and swapped, of a given one, or
        of each solver."""
        counts = result[1]
        # Over draws and groups; the last column is how many rows were asked about.
        *right, asked = counts.reshape(-1, counts.shape[-1]).sum(0)
        return "accuracy " + ", ".join(f"{count / asked:.3f}" for count in right)


def _planned(settings: RunSettings, configs: Mapping[str, Config]) -> tuple[list[Scoring], Path]:
    """The jobs of a command, and the folder of their result. Raises ConfigError and RunError for
    invalid settings, and RunError, with the command that fetches it, for a table that is not stored
    or is damaged."""
    data = Path(settings.data_dir)
    check_tables(data, settings.tables)
    tables = [read_table(data, key) for key in settings.tables]
    first = next(iter(configs.values()))
    jobs: list[Scoring] = []
    task_settings = {
        "data_dir": settings.data_dir,
        "tables": [table.name for table in tables],
        "protocol": settings.protocol,
    }
    held_out = _held_out(settings, tables)
    for table in held_out:
        task_settings["held_out"] = table.name
        for config in [first] if settings.run else configs.values():
            task = replace(config.task, settings=dict(config.task.settings) | task_settings)
            for seed in settings.seeds or (config.seed,):
                # The seed and the table that is held out are all that a run's settings differ in.
                jobs.append(Scoring(table, settings, replace(config, seed=seed, task=task)))
    asked: Fields = {}
    if settings.run:
        runs = _checked_run(settings, first)
        runs.append(str(settings.n_orders))
        # The name of a run that is trained here says both.
        asked = {"held_out": [table.sha256 for table in held_out], "points": first.task.points}
    else:
        build_task(jobs[0].config).data.check(first.task.points)
        runs = [run_folder(job.config).path.name for job in jobs]
    evaluation = first.evaluation
    # What the numbers depend on: the same command finds the same folder, and others another one.
    content = {
        "runs": runs,
        "tables": [table.sha256 for table in tables],
        "scored": [settings.protocol, settings.contexts, settings.draw_count],
        "resamples": [evaluation.resamples, evaluation.seed],
    } | asked
    if settings.protocol == "corrected":
        jobs += [Scoring(table, settings, first, solvers=True) for table in held_out]
    return jobs, Path(first.folder, f"openml-{key_of(content, 8)}")


def _estimator(settings: RunSettings, config: Config) -> Any:
    """The classifier of a given run."""
    from .estimators import SHIPPED, LoopedClassifier  # scikit-learn, which takes a while

    name = settings.run or ""
    path = SHIPPED / name if name == SHIPPED_CLASSIFIER else Path(name)
    return LoopedClassifier(path, n_orders=settings.n_orders, device=config.device)


def _checked_run(settings: RunSettings, config: Config) -> list[str]:
    """What tells a given run from others: path and weights. ConfigError for one that is no
    classifier of two classes, or cannot be read."""
    try:
        # Of one feature, which every model reads: only the run itself is checked.
        loaded, _ = _estimator(settings, config)._load(1)
    except ConfigError as error:
        raise ConfigError("run", f"cannot be scored: {error.problem}") from None
    return [str(loaded.path), weights_digest(loaded.model)]


def _held_out(settings: RunSettings, tables: Sequence[Table]) -> Sequence[Table]:
    """The tables that are held out one after another; ConfigError for one that takes no part."""
    if settings.held_out == ("all",):
        return tables
    by_key: dict[int | str | None, Table] = {}
    for table in tables:
        by_key[table.source.openml_id] = table
        by_key[table.name] = table
    for key in settings.held_out:
        if key not in by_key:
            names = ", ".join(str(table.source.openml_id or table.name) for table in tables)
            problem = f"cannot be {key!r}: the tables that take part are {names}"
            raise ConfigError("held_out", problem)
    return [by_key[key] for key in settings.held_out]


def table_entry(
    table: Table, done: Iterable[tuple[Scoring, Scored]], settings: EvaluationConfig
) -> dict[str, Any]:
    """A held-out table's part of openml.json: its models by family and its solvers by name, from
    the jobs that are done, of all tables. A family beats the majority where the low end of its
    interval is above the share of the larger class."""
    by_family: dict[str, list[Scored]] = {}
    solvers: dict[str, dict[str, float]] = {}
    for job, scored in done:
        if job.table is not table:
            continue
        if job.solvers:
            solvers = _intervals(SOLVERS, scored[1][None], settings)
        else:
            by_family.setdefault(job.model, []).append(scored)
    paper = printed(table.source.openml_id)
    share = max(table.counts) / len(table.ys)
    models = {}
    for family, runs in by_family.items():
        model: dict[str, Any] = {"runs": [about for about, _ in runs]}
        model |= _accuracies(np.stack([scores for _, scores in runs]), settings)
        # By the reference's protocol there is a standard deviation, and no interval.
        low = model["accuracy"].get("low")
        model["beats_majority"] = None if low is None else low > share
        model["published"] = paper.get(family)
        models[family] = model
    return {
        "name": table.name,
        "label": table.label,
        "openml_id": table.source.openml_id,
        "rows": len(table.ys),
        "features": len(table.features),
        "counts": list(table.counts),
        "majority_share": share,
        "sha256": table.sha256,
        "remarks": table.remarks,
        "models": models,
        "solvers": solvers,
    }


def _accuracies(scores: Counts, settings: EvaluationConfig) -> dict[str, dict[str, float]]:
    """One family's accuracies on a table, from scores [training seeds, draws, …, 3]: with labels
    `as_is`, `swapped`, and `accuracy`, the mean of both; by the reference's protocol that of labels
    as they are, with the standard deviation over draws. Of a given run `accuracy` alone, from
    scores [1, draws, groups, 2]."""
    if scores.shape[-1] == 2:
        return _intervals(("accuracy",), scores, settings)
    if scores.ndim == 4:
        # As is and swapped; the third number is how many were asked.
        mean = scores[..., :2].mean(-1, keepdims=True)
        both = np.concatenate([mean, scores], axis=-1)
        return _intervals(("accuracy", "as_is", "swapped"), both, settings)
    by_draw = (scores[..., :2] / scores[..., 2:]).mean(0)  # [draws, polarities]
    as_is, swapped = [
        {"mean": float(values.mean()), "std": float(values.std())} for values in by_draw.T
    ]
    return {"accuracy": as_is, "as_is": as_is, "swapped": swapped}


def _intervals(
    names: Iterable[str], scores: Counts, settings: EvaluationConfig
) -> dict[str, dict[str, float]]:
    """The accuracy of each of these names, with its 90 % interval, from scores [training seeds,
    draws, groups, names and one]. Groups, of which no two share a row or a context, and training
    seeds are resampled."""
    sums = scores.sum(1)
    right = sums[..., :-1]
    # Every training seed is asked about the same rows.
    asked = sums[0, :, -1].astype(int)
    interval = clustered_bootstrap(right, asked, settings.resamples, settings.seed)
    accuracies = {}
    for name, mean, low, high in zip(names, *interval, strict=True):
        accuracies[name] = {"mean": float(mean), "low": float(low), "high": float(high)}
    return accuracies
