"""What changes with the step: dimensions, points and loops, as pure functions of it."""

from .curriculum import Curriculum, SampledLoops, Schedule, Stage

__all__ = ["Curriculum", "SampledLoops", "Schedule", "Stage"]
