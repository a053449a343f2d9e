"""The stage of a training's last step, whose FLOPs are those of the run.

stage = last_stage(run)                       # loops, window, grad_loops, …
"""

from __future__ import annotations

from dataclasses import replace

from reloop.curricula import Schedule, Stage
from reloop.training.assemble import build_curriculum
from reloop.training.run_folder.run import Run


def last_stage(run: Run) -> Stage:
    """The stage of the last step; where loops are drawn anew at each step, one of b loops."""
    curriculum = build_curriculum(run.config, run.task)
    if run.config.loops.sampling != "none":
        curriculum = replace(curriculum, loops=Schedule.constant(run.config.loops.b))
    return curriculum(max(run.config.training.steps - 1, 0))
