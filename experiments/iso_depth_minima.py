"""The law of the worth of one recurrence, fitted to the 24 minima that the project page of arXiv
2604.21106 prints.

It says what a size is worth, and how sure φ is of a few runs. Nothing is trained. The 116 runs of
`scaling_law/design.csv` have the sizes and data of the paper's code, and the losses of its
published law.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.random import default_rng
from pandas import DataFrame, concat

from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.statistics import Estimate, NotMeasured, Z, hierarchical_bootstrap
from looplab.show.panel import Panel
from looplab.training.run_folder.run import Run

from .evidence import Evidence, counted, lowest
from .iso_depth import of_phi
from .language_iso_depth import over_next_smaller
from .scaling_law.__main__ import MINIMA, read_csv
from .scaling_law.law import Law, fit_law, fitted
from .scaling_law.report import law_panels
from .scaling_law.worth import designs

_SIZE, _LOOPS = 410e6, 4  # of the looped model of which the abstract says what it is worth
_RUNS, _BUDGETS = 20, 4  # of a probe of one change, as the paper says
_DESIGN = MINIMA.with_name("design.csv")
_OF_MINIMA = "the 24 published minima"


def measure(
    runs: Sequence[Run],
    settings: EvaluationConfig,
    resamples: int = 200,
    draws: int = 200,
) -> dict[str, Any]:
    """Fit the law to the minima; it needs no runs.

    `law` and `phi`, with its 90 % interval (None where it is open); `size` and `loops` of a looped
    model, its `share` of parameters in the loop, `worth` and `cost`, the sizes of models without a
    loop that are as good and as dear; and `missed`, the losses less the law's in nats: of the
    `fit`, at φ = 0 and 1 with its other parameters `held`, and at 1 with these `refitted`. `off`
    is what φ of twenty runs, and of those of r = 1, is off by, at each draw of them.
    """
    table = read_csv(MINIMA)
    result = fitted(table, {}, (), resamples, seed=0)
    law = result.fit.law
    (design,) = [each for each in designs(result) if each.r == _LOOPS]
    refitted = fit_law(table, {"phi": 1.0}, law).law
    laws = {
        "fit": law,
        "0 held": replace(law, phi=0.0),
        "1 held": replace(law, phi=1.0),
        "1 refitted": refitted,
    }
    missed = {name: (table.loss - each.loss(table)).tolist() for name, each in laws.items()}
    looped = {"size": _SIZE, "loops": _LOOPS, "share": design.share}
    looped["worth"] = _SIZE * design.runs(law.phi)
    looped["cost"] = _SIZE * design.runs(1.0)
    fit = {"models": len(table), "law": asdict(law), "phi": result.phi()}
    design = read_csv(_DESIGN)
    published = fit_law(design, {}).law
    # The scatter of losses that the published law has at its own minima.
    scatter = float(np.sqrt(np.square(np.log(published.loss(table) / table.loss)).mean()))
    off = [power - published.phi for power in _drawn(design, published, scatter, draws)]
    drawn = {"scatter": scatter, "off": off}
    return {**fit, **looped, **drawn, "missed": missed, "minima": table.to_dict("list")}


def _drawn(design: DataFrame, law: Law, scatter: float, draws: int) -> Iterator[float]:
    """φ of the law's losses at each draw, times exp(ε) with a standard deviation of `scatter`: of
    all runs of r = 1, and of twenty others at the four smallest budgets."""
    once = design[design.r == 1]
    budgets = sorted(set(design.budget))[:_BUDGETS]
    others = design[(design.r > 1) & design.budget.isin(budgets)]
    generator = default_rng(0)
    for _ in range(draws):
        table = concat([once, others.sample(_RUNS, random_state=generator)])
        losses = table.loss * np.exp(generator.normal(0, scatter, len(table)))
        yield fit_law(table.assign(loss=losses), {}, law).law.phi


def panels(found: Mapping[str, Any]) -> list[Panel]:
    """The losses with the law's, and what it misses."""
    return law_panels(DataFrame(found["minima"]), Law(**found["law"]))


def phi(evidence: Evidence) -> Estimate:
    """The worth of one recurrence by the law of the minima."""
    return _of_minima(of_phi(evidence.result("iso_depth_minima", "phi"), seeds=1))


def worth_over(evidence: Evidence, parameters: float) -> Estimate:
    """The size of a model without a loop that is as good as the looped one, over these parameters,
    with the ends that φ's interval gives."""
    result = evidence.result("iso_depth_minima")
    share = result["share"]
    ends = []
    for power in (result["phi"][name] for name in ("value", "low", "high")):
        if power is None:
            raise NotMeasured("the interval of φ has no end")
        ends.append(result["size"] * (1 - share + result["loops"] ** power * share) / parameters)
    return _of_minima(Estimate(ends[0], ends[1], ends[2], 1))


def cost_over(evidence: Evidence, parameters: float) -> Estimate:
    """The size of a model without a loop that is as dear as the looped one, over these
    parameters."""
    ratio = counted(evidence.result("iso_depth_minima", "cost") / parameters)
    return _of_minima(ratio)._replace(note=ratio.note)


def least_misfit_over_fit(evidence: Evidence) -> Estimate:
    """The root mean square of what the law misses at φ = 0 or 1, its other parameters held, over
    that of the fit, at the φ at which it is less."""
    missed = evidence.result("iso_depth_minima", "missed")
    ratios = [_ratio_of_squares(missed, name, "fit") for name in ("0 held", "1 held")]
    return lowest(ratios)


def refitted_over_held(evidence: Evidence) -> Estimate:
    """The root mean square of what the law misses at φ = 1, its other parameters refitted over
    held."""
    missed = evidence.result("iso_depth_minima", "missed")
    return _ratio_of_squares(missed, "1 refitted", "1 held")


def recurrences_over_next_smaller(evidence: Evidence) -> Estimate:
    """The least loss of r over that of the next smaller r: see `over_next_smaller`."""
    table = DataFrame(evidence.result("iso_depth_minima", "minima"))
    by_budget = table.pivot(index="r", columns="budget", values="loss").to_dict()
    return _of_minima(over_next_smaller(by_budget.values()))


def half_interval_over(evidence: Evidence, difference: float) -> Estimate:
    """Half the 90 % interval of φ from twenty runs and those of r = 1, over a difference of φ."""
    squares = np.square(evidence.result("iso_depth_minima", "off")) * (Z / difference) ** 2
    estimate = hierarchical_bootstrap([squares[None]], lambda means: np.sqrt(means[0]), log=True)
    size = f"{_RUNS} of the published law's runs, drawn"
    note = "the interval is over draws of runs and of the scatter of their losses"
    return estimate._replace(steps=0, size=size, note=note)


def _ratio_of_squares(missed: Mapping[str, Any], above: str, below: str) -> Estimate:
    """The ratio of two root mean squares, with its interval over the minima."""
    both = np.stack([np.square(missed[name]) for name in (above, below)], -1)

    def statistic(means: Sequence[Floats]) -> Floats:
        return np.sqrt(means[0][..., 0] / means[0][..., 1])

    return _of_minima(hierarchical_bootstrap([both[None]], statistic, log=True))


def _of_minima(estimate: Estimate) -> Estimate:
    """The estimate with what its interval is over; nothing was trained here."""
    note = f"the interval is over {_OF_MINIMA}"
    return estimate._replace(steps=0, seeds=1, size=_OF_MINIMA, note=note)
