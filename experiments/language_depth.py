"""What loops are worth to a language model, beside plain layers of as many parameters and of as
many FLOPs.

`experiment=language_depth` trains with a fixed number of loops and with one drawn at each step, and
measures after fewer and more loops than in training. `experiment=language_test_loops` varies the
loops whose loss counts.
"""

from collections.abc import Sequence
from functools import partial

from looplab.conf.checks.loops import most_loops
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.statistics import Estimate, NotMeasured, hierarchical_bootstrap

from .claims import SUITE, Evidence
from .evidence import Trainings, bits, group, groups, ratio, within
from .measuring import first_at_most

_ALLOWED = 1.01  # times the least bits per byte, to be near it
# In Table 1 of arXiv 2605.18797 LT_i's and FLT's largest ratio is 1.001, LT's is 1.058.
_KEEPS = 1.01
_BUDGETS = SUITE._replace(prefix="language_").claim
_ASKED = SUITE._replace(prefix="language_depth_")


def _looped(evidence: Evidence, sampling: str) -> Trainings:
    return group(evidence, family="looped", sampling=sampling)


def _over_plain(evidence: Evidence, place: int) -> Estimate:
    """Bits per byte of the looped model over those of a plain one: of those in the order of their
    layers and steps the one at this place."""
    plain = groups(evidence, family="standard")
    plain.sort(key=lambda each: (each.config.model.n_layer, each.config.training.steps))
    return ratio([(_looped(evidence, "none"), plain[place])], bits)


for _name, _place, _sentence, _than, _side in (
    ("loops_pay", 0, "Running a layer again lowers bits per byte", "as many parameters", "below"),
    (
        "loops_pay_for_their_flops",
        1,
        "Running a layer again lowers bits per byte more than as many FLOPs in further steps",
        "as many parameters and FLOPs",
        "below",
    ),
    (
        "sharing_costs",
        2,
        "Layers of their own are better than one that runs again",
        "as many FLOPs and steps",
        "above",
    ),
):
    _ASKED.claim(
        _name,
        f"{_sentence}.",
        quantity=f"bits per byte, looped over a plain model of {_than}",
        figure="",
        **{_side: 1.0},
    )(partial(_over_plain, place=_place))


def _drawn_over_fixed(evidence: Evidence, times: float) -> Estimate:
    pair = (_looped(evidence, "uniform"), _looped(evidence, "none"))
    return ratio([pair], partial(bits, times=times))


def _beyond(evidence: Evidence, sampling: str, times: float) -> Estimate:
    """After so many times the loops of training over after these, of the same models."""
    return within([[_looped(evidence, sampling)]], [partial(bits, times=times)], [bits])


for _name, _sentence, _quantity, _line, _estimate in (
    (
        "drawn_loops_cost_little",
        "Loops drawn anew at each step cost little at their mean.",
        "at b, trained with drawn loops over fixed",
        {"below": _KEEPS},
        partial(_drawn_over_fixed, times=1.0),
    ),
    (
        "drawn_loops_need_fewer",
        "After half of the loops a model that was trained with drawn ones is better.",
        "at b / 2, trained with drawn loops over fixed",
        {"below": 1.0},
        partial(_drawn_over_fixed, times=0.5),
    ),
    (
        "fixed_loops_end",
        "Trained with a fixed number of loops, a model gets worse beyond it.",
        "at 4 b over at b, trained with fixed loops",
        {"above": _KEEPS},
        partial(_beyond, sampling="none", times=4.0),
    ),
    (
        "drawn_loops_keep",
        "Trained with drawn loops, a model does not get worse beyond them.",
        "at 4 b over at b, trained with drawn loops",
        {"below": _KEEPS},
        partial(_beyond, sampling="uniform", times=4.0),
    ),
    (
        "drawn_loops_go_further",
        "Trained with drawn loops, a model is better after twice their mean.",
        "at 2 b over at b, trained with drawn loops",
        {"below": 1.0},
        partial(_beyond, sampling="uniform", times=2.0),
    ),
):
    _ASKED.claim(_name, _sentence, figure="", quantity=f"bits per byte {_quantity}", **_line)(
        _estimate
    )


def _most(of: Trainings) -> int:
    """The most loops of training."""
    loops = of.config.loops
    return most_loops(loops.sampling, loops.b, loops.least)


def _window(evidence: Evidence, which: str) -> Trainings:
    """The group whose loss is that of the last loop alone, of a window, or of all loops."""
    for each in groups(evidence, name="language", family="looped"):
        T = each.config.loops.T
        if which == ("last" if T == 1 else "all" if _most(each) <= T else "window"):
            return each
    raise NotMeasured(f"no runs with the loss of {which} loops")


def _keeps(evidence: Evidence, which: str) -> Estimate:
    of = _window(evidence, which)
    trained = partial(bits, times=_most(of) / of.b)
    return within([[of]], [lambda of: of.errors("held_out")[..., -1]], [trained])


for _name, _which, _text in (
    ("last_loop_keeps", "last", "the last loop alone"),
    ("window_keeps", "window", "a window of loops"),
    ("all_loops_keep", "all", "all loops"),
):
    _BUDGETS(
        _name,
        f"With the loss of {_text}, four times the loops of training do not make a language model "
        "worse.",
        quantity="bits per byte after the most loops evaluated over those of training",
        below=_KEEPS,
    )(partial(_keeps, which=_which))


@_BUDGETS(
    "all_loops_are_reached_sooner",
    "With the loss of all loops a language model comes near its best after fewer loops than with "
    "that of the last alone.",
    quantity="loops until within 1 % of the least bits per byte, all over last",
    below=1.0,
)
def all_loops_are_reached_sooner(evidence: Evidence) -> Estimate:
    def ratio_of_loops(means: Sequence[Floats]) -> Floats:
        first, second = (1 + first_at_most(each, _ALLOWED * each.min(-1)) for each in means)
        return first / second

    both = [_window(evidence, which).errors("held_out") for which in ("all", "last")]
    return hierarchical_bootstrap(both, ratio_of_loops, log=True)
