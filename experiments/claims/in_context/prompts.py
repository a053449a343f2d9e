"""Which prompts: few distinct ones in training, shifted ones in evaluation (Figures 5, 6 and 14 to
16)."""

from __future__ import annotations

from ..claim import Estimate, Evidence, NotMeasured
from ..select import alike, group, groups, last, over_examples, ratio
from .paper import NO_WORSE, of_paper


@of_paper(
    "fig05_few_prompts",
    "Trained on few distinct prompts, a looped model has less error than a standard one trained on "
    "the same number.",
    figure="Figures 5 and 14",
    quantity="error of the last query, looped over standard, geometric mean over the numbers of "
    "distinct prompts",
    line=1.0,
    holds_if="below",
    size="d = 10",
)
def few_prompts(evidence: Evidence) -> Estimate:
    """Each family at the better of its learning rates, as in Figure 14."""
    best = [
        {
            repr(same[0].config.task): min(same, key=lambda g: float(last(g).mean()))
            for same in alike(groups(evidence, family=family), lambda config: config.task)
            if same[0].config.task.distinct_prompts
        }
        for family in ("looped", "standard")
    ]
    looped, standard = best
    pairs = [(looped[task], standard[task]) for task in looped if task in standard]
    if not pairs:
        raise NotMeasured("no looped and standard model of the same number of distinct prompts")
    return ratio(pairs, last)


# By figure; where several show a shift, by the first.
_SHIFTS = {
    "fig06_skewed_covariance": ("Figures 6 and 15", "inputs of skewed covariance"),
    "fig06_noise": ("Figures 6 and 15", "noisy outputs"),
    "fig06_scaled_x_3": ("Figures 6 and 16", "inputs three times as long"),
    "fig15_half_subspace": ("Figure 15", "inputs from half of the dimensions"),
    "fig15_orthogonal_query": ("Figure 15", "queries orthogonal to the examples"),
    "fig15_repeated_query": ("Figure 15", "queries that are one of the examples"),
    "fig15_random_orthants": ("Figure 15", "examples from one orthant"),
    "fig16_scaled_x_2": ("Figure 16", "inputs twice as long"),
    "fig16_scaled_w_2": ("Figure 16", "weights twice as large"),
    "fig16_scaled_w_3": ("Figure 16", "weights three times as large"),
}


def _no_worse_on(name: str, figure: str, what: str) -> None:
    shift = name.partition("_")[2]

    @of_paper(
        name,
        f"On {what}, which it was not trained on, a looped model errs no more than a standard one.",
        figure=figure,
        quantity="mean error over all numbers of examples, looped over standard",
        line=NO_WORSE,
        holds_if="below",
        published="better or equal",
    )
    def no_worse(evidence: Evidence) -> Estimate:
        models = [
            group(evidence, family=family, name="linear", distinct_prompts=0)
            for family in ("looped", "standard")
        ]
        return ratio([(models[0], models[1])], lambda g: over_examples(g, f"{shift}/model_at_b"))


for _name, (_figure, _what) in _SHIFTS.items():
    _no_worse_on(_name, _figure, _what)
