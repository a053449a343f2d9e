"""What changes with the step: dimensions, points and loops, as pure functions of it."""

from .curriculum import Curriculum, Stage
from .sampling import SampledLoops
from .schedule import Schedule

__all__ = ["Curriculum", "SampledLoops", "Schedule", "Stage"]
