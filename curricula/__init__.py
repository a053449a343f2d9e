"""Curricula say what changes with the step: dimensions, points and loops, as pure functions of
it."""

if "." not in __name__:
    raise ImportError("curricula is a part of looplab: from looplab.curricula import …")

from .curriculum import Curriculum, SampledLoops, Schedule, Stage

__all__ = ["Curriculum", "SampledLoops", "Schedule", "Stage"]
