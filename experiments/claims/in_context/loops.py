"""What loops do: beyond those of training, without injection, by window, b, layers and width
(Figures 2, 3, 4, 7, 9, 12 and 17)."""

from __future__ import annotations

from collections.abc import Sequence

from looplab.conf.schema import Config

from ..claim import Estimate, Evidence, NotMeasured
from ..select import Group, alike, at_b, at_loop, groups, over_examples, ratio, within, within_ratio
from .accuracy import NO_WORSE, STAYS, of_paper

_FAR, _FARTHER = 3, 5  # times b: what an evaluation follows unless it is told more, and Figure 2's
_FLAT = 0.8  # of an error that a third more loops leave


def growth(of: Sequence[Group], times: int = _FAR) -> Estimate:
    """The last query's error at `times` b loops over that at b, the geometric mean over groups."""
    return within(of, lambda g: at_loop(g, times * g.loops), at_b)


@of_paper(
    "fig02_stays_beyond_b",
    "Run for five times the loops of its training, a looped model is still about as good.",
    figure="Figure 2, left",
    quantity="error of the last query after 5 b loops over that after b",
    line=STAYS,
    holds_if="below",
)
def stays_beyond_b(evidence: Evidence) -> Estimate:
    """All looped models on linear functions."""
    return growth(groups(evidence, family="looped", name="linear"), _FARTHER)


@of_paper(
    "fig03_tied_grows",
    "Without injection of the prompt the error grows when the loop runs on beyond its training.",
    figure="Figure 3",
    quantity="error of the last query after 3 b loops over that after b, without injection",
    line=2.0,  # beyond what a loop that stays may do
    holds_if="above",
)
def tied_grows(evidence: Evidence) -> Estimate:
    """All weight-tied models."""
    return growth(groups(evidence, family="tied", name="linear"))


@of_paper(
    "fig03_injected_stays",
    "With injection of the prompt the error stays when the loop runs on beyond its training.",
    figure="Figure 3",
    quantity="error of the last query after 3 b loops over that after b, with injection",
    line=STAYS,
    holds_if="below",
)
def injected_stays(evidence: Evidence) -> Estimate:
    """All looped models with injection."""
    return growth(_injected(evidence))


@of_paper(
    "fig03_injection_decides",
    "Beyond the loops of training the error grows more without injection of the prompt than with "
    "it.",
    figure="Figure 3",
    quantity="growth of the error from b to 3 b loops, without injection over with it",
    line=1.0,
    holds_if="above",
)
def injection_decides(evidence: Evidence) -> Estimate:
    """The two at the same b."""
    tied = {each.loops: each for each in groups(evidence, family="tied", name="linear")}
    pairs = [(tied[each.loops], each) for each in _injected(evidence) if each.loops in tied]
    if not pairs:
        raise NotMeasured("no models with and without injection of the same b")
    return _growth_ratio(pairs)


@of_paper(
    "fig04_large_T_stays",
    "With a large window of the loss a loop stays converged beyond its training.",
    figure="Figures 4 and 12",
    quantity="error of the last query after 3 b loops over that after b, at each b's largest T",
    line=STAYS,
    holds_if="below",
)
def large_window_stays(evidence: Evidence) -> Estimate:
    """The largest T of each task and b."""
    return growth([largest for _, largest in _windows(evidence)])


@of_paper(
    "fig04_small_T_grows",
    "With a small window of the loss the error grows more beyond the training's loops than with a "
    "large one.",
    figure="Figures 4 and 12",
    quantity="growth of the error from b to 3 b loops, at each b's smallest T over its largest",
    line=1.0,
    holds_if="above",
)
def small_window_grows(evidence: Evidence) -> Estimate:
    """The smallest T of each task and b over the largest."""
    return _growth_ratio(_windows(evidence))


@of_paper(
    "fig07_one_layer_is_enough",
    "A looped block of one layer is as good as one of more layers.",
    figure="Figure 7",
    quantity="error of the last query after b loops, one layer over the most",
    line=1.25,  # errors of two seeds of one model differ by as much
    holds_if="below",
    size="d = 20, 256 wide",
)
def one_layer_is_enough(evidence: Evidence) -> Estimate:
    """At one width, heads and b."""
    found = [
        (same[0], same[-1])
        for same in alike(
            groups(evidence, family="looped"),
            lambda c: (c.task, c.model.n_embd, c.model.n_head, c.loops),
        )
        if same[0].config.model.n_layer == 1 < same[-1].config.model.n_layer
    ]
    if not found:
        raise NotMeasured("no looped blocks of one layer and of more")
    return ratio(found, at_b)


@of_paper(
    "fig07_width_helps",
    "A wider looped block has less error.",
    figure="Figure 7",
    quantity="error of the last query after b loops, the widest over the narrowest",
    line=1.0,
    holds_if="below",
)
def width_helps(evidence: Evidence) -> Estimate:
    """One layer, the same heads and b."""
    return ratio([(widths[-1], widths[0]) for widths in _widths(evidence, 2)], at_b)


@of_paper(
    "fig07_width_saturates",
    "Beyond some width a looped block gains little.",
    figure="Figure 7",
    quantity="error of the last query after b loops, the widest over the next to it",
    line=_FLAT,
    holds_if="above",
    published="saturates at 256",
)
def width_saturates(evidence: Evidence) -> Estimate:
    """The last two of at least three widths."""
    return ratio([(widths[-1], widths[-2]) for widths in _widths(evidence, 3)], at_b)


@of_paper(
    "fig09_more_loops_help",
    "Trained with more loops a model ends with less error.",
    figure="Figure 9",
    quantity="error of the last query after b loops, at the largest b over the smallest",
    line=1.0,
    holds_if="below",
)
def more_loops_help(evidence: Evidence) -> Estimate:
    """The geometric mean over tasks."""
    return ratio([(by_b[-1], by_b[0]) for by_b in _by_b(evidence)], at_b)


@of_paper(
    "fig09_flattens",
    "With enough loops the error is flat before the last one: the loop has converged.",
    figure="Figure 9",
    quantity="error of the last query after b loops over that after 3/4 b, at the largest b",
    line=_FLAT,
    holds_if="above",
)
def flattens(evidence: Evidence) -> Estimate:
    """The largest b of each task."""
    largest = [by_b[-1] for by_b in _by_b(evidence)]
    return within(largest, at_b, lambda g: at_loop(g, max(3 * g.loops // 4, 1)))


@of_paper(
    "fig17_schedule_is_no_worse",
    "A number of loops that grows in training costs no accuracy.",
    figure="Figure 17",
    quantity="mean error over all numbers of examples, with the schedule of b over without it",
    line=NO_WORSE,
    holds_if="below",
)
def schedule_is_no_worse(evidence: Evidence) -> Estimate:
    """The geometric mean over tasks."""
    pairs = []
    for same in alike(
        groups(evidence, family="looped"), lambda c: (c.task, c.model, c.loops, c.training.steps)
    ):
        growing = [each for each in same if _grows(each.config)]
        constant = [each for each in same if not _grows(each.config)]
        if growing and constant:
            pairs.append((growing[-1], constant[-1]))
    if not pairs:
        raise NotMeasured("no models trained with and without a schedule of b")
    return ratio(pairs, over_examples)


def _injected(evidence: Evidence) -> list[Group]:
    found = [
        each
        for each in groups(evidence, family="looped", name="linear")
        if each.config.model.injection != "none" and each.config.model.connectivity is None
    ]
    if not found:
        raise NotMeasured("no finished run of a looped model with injection")
    return found


def _growth_ratio(pairs: Sequence[tuple[Group, Group]]) -> Estimate:
    """The growth from b to 3 b loops of each pair's first group over its second's."""
    return within_ratio(pairs, lambda g: at_loop(g, _FAR * g.loops), at_b)


def _windows(evidence: Evidence) -> list[tuple[Group, Group]]:
    """Of each task and b the groups of the smallest and the largest window, at most b."""
    found = []
    for same in alike(groups(evidence, family="looped"), lambda c: (c.task, c.model, c.loops.b)):
        by_window = sorted(same, key=lambda g: min(g.config.loops.T, g.loops))
        small, large = (min(g.config.loops.T, g.loops) for g in (by_window[0], by_window[-1]))
        if small < large:
            found.append((by_window[0], by_window[-1]))
    if not found:
        raise NotMeasured("no two windows T of the same b")
    return found


def _widths(evidence: Evidence, least: int) -> list[list[Group]]:
    """Looped models of one layer that differ in width, narrow to wide, with at least so many."""
    same = alike(
        groups(evidence, family="looped", n_layer=1), lambda c: (c.task, c.model.n_head, c.loops)
    )
    found = [each for each in same if len({g.config.model.n_embd for g in each}) >= least]
    if not found:
        raise NotMeasured(f"fewer than {least} widths of a looped block")
    return found


def _by_b(evidence: Evidence) -> list[list[Group]]:
    """Of each task the looped models that differ in b, from few loops to many."""
    same = alike(groups(evidence, family="looped"), lambda c: (c.task, c.model, c.loops.T))
    found = [each for each in same if len({g.loops for g in each}) > 1]
    if not found:
        raise NotMeasured("no two numbers of loops b of the same task")
    return found


def _grows(config: Config) -> bool:
    """Whether the number of loops grows in training."""
    start, loops = config.curriculum.loops.start, config.loops
    return (min(loops.T, loops.b) if start is None else start) < loops.b
