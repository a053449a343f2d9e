"""Trained looped models as rows of the law's table.

table = table_of("runs/linear-*")       # N_once, N_rec, r, D, loss, budget, run
"""

import math
import sys
from glob import glob
from pathlib import Path
from typing import Any

import numpy as np
from pandas import DataFrame

from looplab.conf.mistakes import RunError
from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.evaluate_run import evaluated
from looplab.evaluation.load import load_run
from looplab.models.flops import pass_costs
from looplab.training.assemble import last_stage
from looplab.training.run_folder.run import Run
from looplab.training.run_folder.status import is_run


def row_of(run: Run, settings: EvaluationConfig) -> dict[str, Any]:
    """The row of a run after b loops, with its name and the FLOPs of its training, all as long as
    its last steps: on texts the loss is nats a byte of the held-out text and D counts tokens; in
    context it is the mean error over all numbers of examples and D counts prompts. N_once counts
    prelude, coda, injection and norms (as in arXiv 2604.21106, even if they run in the loop), and
    the parameters of lanes; neither N counts read-in, read-out and positions."""
    stage = last_stage(run.config, run.task)
    points = run.config.task.points
    sequences = run.step * run.config.training.batch_size
    _, arrays = evaluated(run, settings)
    if run.task.is_text:
        loss = float(arrays["held_out"][:, stage.loops - 1].mean()) * math.log(2)  # from bits
        data = sequences * points
    else:
        loss = float(arrays["model_at_b"].mean(dtype=np.float64))
        data = sequences
    rec = sum(parameter.numel() for parameter in run.model.loop.blocks.parameters())
    tokens = run.config.task.tokens_of(points)
    flops = pass_costs(run.model, tokens).of_step(stage.loops, stage.grad_loops, stage.window)
    return {
        "N_once": run.model.backbone_parameters() - rec,
        "N_rec": rec,
        "r": run.config.loops.b,
        "D": data,
        "loss": loss,
        "budget": sequences * flops,
        "run": run.path.name,
    }


def table_of(pattern: str) -> DataFrame:
    """The table of the finished looped runs in the folders that match a pattern, as they are
    evaluated (computed for those that are not). Raises RunError where there is none."""
    finished = []
    left_out = []
    for path in filter(is_run, map(Path, sorted(glob(pattern)))):
        run = load_run(path)
        is_looped = run.config.model.family != "standard"
        if is_looped and run.step >= run.config.training.steps:
            finished.append(run)
        else:
            left_out.append(run.path.name)
    if left_out:
        why = "left out, not finished or without a loop"
        print(f"{pattern}: {why}: {', '.join(left_out)}", file=sys.stderr, flush=True)
    if not finished:
        raise RunError(f"{pattern} matches no finished run of a looped model")
    return DataFrame([row_of(run, run.config.evaluation) for run in finished])
