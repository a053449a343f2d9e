"""Run folders as rows of a scaling law's table: parameters, training prompts and loss of a model.

table, messages = read_runs(run_folders(["runs"]))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from looplab.conf.mistakes import ConfigError, RunError
from looplab.conf.saved import read_config
from looplab.evaluation.bootstrap import numbers
from looplab.evaluation.evaluate_run import evaluation_of
from looplab.evaluation.load import load_run
from looplab.evaluation.remarks import curriculum_left, shared
from looplab.models import Model
from looplab.training.run_folder.run import Run, RunFolder

from .table import COLUMNS, ScalingTable


@dataclass(frozen=True)
class Row:
    """One run's row; `evaluation_key` identifies the task and the prompts of the evaluation."""

    name: str
    N_once: int
    N_rec: int
    r: int
    D: int
    loss: float
    evaluation_key: tuple[Any, ...]
    remarks: tuple[str, ...] = ()


def read_runs(paths: Sequence[Path]) -> tuple[ScalingTable, list[str]]:
    """The table of the finished runs of looped models among these folders, labelled with their
    names, and messages: the reasons why other runs have no row, and the remarks on those that have
    one. A run without an evaluation is evaluated.

    Raises RunError if no run has a row, or if the errors are on different prompts.
    """
    rows: list[Row] = []
    messages: list[str] = []
    for path in paths:
        row = _row_or_reason(path)
        if isinstance(row, Row):
            rows.append(row)
        else:
            messages.append(f"left out: {path}: {row}")
    if not rows:
        raise RunError("; ".join(["no run has a row for the table", *messages]))
    for row in rows[1:]:
        if row.evaluation_key != rows[0].evaluation_key:
            raise RunError(
                f"{rows[0].name} and {row.name} are of different tasks, or were evaluated on "
                "different prompts: their errors do not belong into one table"
            )
    remarks = shared({row.name: row.remarks for row in rows})
    return table_of(rows, run=[row.name for row in rows]), messages + remarks


def row_of(run: Run) -> Row:
    """The row of a finished run: r is loops.b, D counts the prompts it was trained on, the loss is
    the error at b loops over the task's divisor, its mean over all numbers of examples."""
    config, result = run.config, evaluation_of(run)
    once, rec = parameter_counts(run.model)
    loss = float(np.mean(numbers(result["by_examples"]["model_at_b"]["mean"])))
    prompts = run.step * config.training.batch_size
    task = replace(config.task, distinct_prompts=0, distinct_functions=0)
    evaluation_key = (task, result["prompts"], result["seed"])
    remarks = tuple(result["remarks"])
    return Row(run.path.name, once, rec, config.loops.b, prompts, loss, evaluation_key, remarks)


def parameter_counts(model: Model) -> tuple[int, int]:
    """N_once and N_rec of a looped model. N_rec: the layers that run r times. N_once: prelude,
    coda, injection and norms (as in arXiv 2604.21106, even if they run in the loop), and the
    parameters of lanes. Neither counts read-in, read-out and positions."""
    rec = sum(parameter.numel() for parameter in model.loop.blocks.parameters())
    return model.backbone_parameters() - rec, rec


def table_of(rows: Sequence[Row], **labels: Sequence[object]) -> ScalingTable:
    """The rows as a table, with further columns as labels."""
    columns = {
        name: np.array([getattr(row, name) for row in rows], dtype=np.float64) for name in COLUMNS
    }
    words = {name: tuple(map(str, values)) for name, values in labels.items()}
    return ScalingTable(**columns, labels=words)


def _row_or_reason(path: Path) -> Row | str:
    """The row of a run, or the reason why it has none."""
    try:
        config, status = read_config(path), RunFolder(path).status()
        if config.model.family == "standard":
            return "a standard model runs each layer once: it has no loop to count"
        if status["state"] != "finished":
            steps = f"{status['step']} of {config.training.steps} steps"
            return f"it is not finished ({status['state']}, {steps})"
        run = load_run(path)
        # The errors of a run whose curriculum has not reached its end are not those of its sizes.
        missing = curriculum_left(run.config, run.task, run.step)
        return f"curriculum unfinished: {missing}" if missing else row_of(run)
    except (ConfigError, RunError) as error:
        return str(error)
