"""What loops are worth to a language model, beside plain layers of as many parameters and of as
many FLOPs.

`experiment=language_depth` trains with a fixed number of loops and with one drawn at each step, and
measures after fewer and more loops than in training. `experiment=language_test_loops` varies the
loops whose loss counts.
"""

from collections.abc import Sequence
from functools import partial
from operator import attrgetter

from looplab.conf.checks.loops import most_loops
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.statistics import Estimate, NotMeasured, hierarchical_bootstrap

from .evidence import Evidence, Trainings, bits, group, groups, ratio, within
from .question import first_at_most

_ALLOWED = 1.01  # times the least bits per byte, to be near it


def over_as_many_parameters(evidence: Evidence) -> Estimate:
    """Bits per byte of the looped model over those of plain layers of as many parameters."""
    return _over_plain(evidence, 0)


def over_as_many_parameters_and_flops(evidence: Evidence) -> Estimate:
    """Bits per byte of the looped model over those of as many parameters, trained for longer."""
    return _over_plain(evidence, 1)


def over_as_many_flops_and_steps(evidence: Evidence) -> Estimate:
    """Bits per byte of the looped model over those of more plain layers."""
    return _over_plain(evidence, 2)


def _over_plain(evidence: Evidence, place: int) -> Estimate:
    """Bits per byte of the looped model over those of a plain one: of those in the order of their
    layers and steps the one at this place."""
    plain = groups(evidence, family="standard")
    plain.sort(key=attrgetter("config.model.n_layer", "config.training.steps"))
    return ratio([(_looped(evidence, "none"), plain[place])], bits)


def _looped(evidence: Evidence, sampling: str) -> Trainings:
    return group(evidence, family="looped", sampling=sampling)


def drawn_loops_over_fixed(evidence: Evidence, times: float) -> Estimate:
    """Bits per byte after so many times b loops, trained with drawn loops over fixed."""
    drawn = _looped(evidence, "uniform")
    fixed = _looped(evidence, "none")
    return ratio([(drawn, fixed)], partial(bits, times=times))


def beyond_loops(evidence: Evidence, sampling: str, times: float) -> Estimate:
    """Bits per byte after so many times the loops of training over those after these."""
    return within([[_looped(evidence, sampling)]], [partial(bits, times=times)], [bits])


def most_loops_over_trained(evidence: Evidence, loss: str) -> Estimate:
    """Bits per byte after the most loops evaluated over those of training, of the model with the
    loss of the `last` loop alone, of a `window` or of `all` loops."""
    model = _with_loss(evidence, loss)
    trained = partial(bits, times=_most(model) / model.b)
    return within([[model]], [_after_all], [trained])


def all_loops_over_last_to_be_near(evidence: Evidence) -> Estimate:
    """The loops until bits per byte are near their least, with the loss of all loops over the last
    loop's alone."""
    loss_of_all = _with_loss(evidence, "all").errors("held_out")
    loss_of_last = _with_loss(evidence, "last").errors("held_out")

    def statistic(means: Sequence[Floats]) -> Floats:
        loops = [1 + first_at_most(mean, _ALLOWED * mean.min(-1)) for mean in means]
        return loops[0] / loops[1]

    return hierarchical_bootstrap([loss_of_all, loss_of_last], statistic, log=True)


def _with_loss(evidence: Evidence, loss: str) -> Trainings:
    """The model whose loss is that of the last loop alone, of a window, or of all loops."""
    for model in groups(evidence, name="language", family="looped"):
        if _loss_of(model) == loss:
            return model
    raise NotMeasured(f"no runs with the loss of {loss} loops")


def _loss_of(model: Trainings) -> str:
    T = model.config.loops.T
    if T == 1:
        return "last"
    return "all" if _most(model) <= T else "window"


def _most(model: Trainings) -> int:
    """The most loops of training."""
    loops = model.config.loops
    return most_loops(loops.sampling, loops.b, loops.least)


def _after_all(model: Trainings) -> Floats:
    """Bits per byte after the most loops that were evaluated, [seeds, blocks]."""
    return model.errors("held_out")[..., -1]
