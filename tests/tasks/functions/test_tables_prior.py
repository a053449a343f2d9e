"""Random tables: each kind of column, each rule against NumPy, and what is added to both."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from looplab.conf.mistakes import ConfigError
from looplab.tasks import make_task
from looplab.tasks.tables_prior import _RULES
from tests.tasks.conftest import assert_frequencies, assert_mean, generator

PLAIN = {"noise_std": 0.0, "flips": 0.0, "missing": 0.0, "kinds": ["plain"], "rules": ["linear"]}
DIMS = 4


def task(**settings: Any) -> Any:
    return make_task("tables_prior", DIMS, settings={**PLAIN, **settings})


def columns(kind: str, batch: int, points: int) -> list[Any]:
    """Each prompt's columns of this kind that are not empty, as NumPy arrays [n]."""
    xs = task(kinds=[kind]).sample(generator(), batch, points).xs.double()
    filled = (xs != 0).any(1)
    return [*xs.mT[filled].numpy()]


def test_any_number_of_columns_is_as_likely() -> None:
    xs = task().sample(generator(), 3000, 12, dims=3).xs
    counts = (xs != 0).any(1).sum(1)
    assert not xs[:, :, 3:].any()
    assert_frequencies(counts[:, None] == torch.arange(1, 4), 1 / 3)


def test_columns_are_standardised_by_the_context_and_clipped() -> None:
    heavy = np.stack(columns("heavy", 200, 40))
    assert np.abs(heavy).max() == 4
    mild = heavy[np.abs(heavy[:, :-1]).max(1) < 4, :-1]
    np.testing.assert_allclose(mild.mean(1), 0, atol=1e-5)
    np.testing.assert_allclose(mild.std(1), 1, atol=1e-5)


def test_kinds_of_columns_have_their_shapes() -> None:
    normal, heavy, skewed = (columns(kind, 60, 400) for kind in ("plain", "heavy", "skewed"))
    assert np.median([stats.kurtosis(x) for x in heavy]) > 1
    assert abs(np.median([stats.kurtosis(x) for x in normal])) < 0.2
    assert np.median([abs(stats.skew(x)) for x in skewed]) > 1
    # Values of a discrete column lie in equal steps, codes of a category do not.
    steps = []
    for kind in ("discrete", "categorical"):
        values = [np.unique(x) for x in columns(kind, 60, 400)]
        counts = [len(value) for value in values]
        assert min(counts) >= 2
        assert max(counts) <= 8
        steps.append(np.median([np.ptp(np.diff(value)) for value in values if len(value) > 2]))
    assert steps[0] < 1e-5 < steps[1]


def test_columns_share_factors() -> None:
    """Without loadings the squared correlation of two columns of 300 rows is 1/299."""
    made = task()
    _, table = made.draw(generator(), 400, 20)
    xs = made.sample(generator(), 400, 300).xs
    squares = torch.stack([prompt[:, :2].T.corrcoef()[0, 1].square() for prompt in xs])
    shared = (table.loadings[:, :2] != 0).any(2).all(1) & (table.present[:, 1] == 1)
    alone = ~(table.loadings != 0).any(2).any(1) & (table.present[:, 1] == 1)
    assert_mean(squares[alone], 1 / 299)
    assert squares[shared].mean() > 0.05


def test_rules_are_those_of_numpy() -> None:
    _, table = task().draw(generator(), 5, 3)
    xs, factors = torch.randn(5, 7, DIMS, generator=generator()), torch.zeros(5, 7, 2)
    weights = {name: values.double().numpy() for name, values in table.weights.items()}
    relevant = table.relevant.double().numpy()
    for b in range(5):
        use = relevant[b]

        def linear(x: Any, b: int = b, use: Any = use) -> float:
            return float(sum(weights["linear"][b] * use * x))

        def network(x: Any, b: int = b, use: Any = use) -> float:
            scale = weights["gain"][b] / np.sqrt(use.sum())
            units = np.tanh(weights["hidden"][b] @ (use * x) * scale + weights["bias"][b])
            return float(weights["out"][b] @ units)

        def tree(x: Any, b: int = b, use: Any = use) -> float:
            leaf = 0
            for level in range(int(weights["levels"][b])):
                column = np.argmax(weights["cut_column"][b, level] * use)
                leaf += 2**level * int(x[column] > weights["cut_at"][b, level])
            return float(weights["leaves"][b, leaf])

        def centres(x: Any, b: int = b, use: Any = use) -> float:
            count = int(weights["centres_used"][b])
            distances = [sum(use * (x - c) ** 2) for c in weights["centres"][b, :count]]
            return float(min(distances[1::2]) - min(distances[::2]))

        for rule in (linear, network, tree, centres):
            scores = _RULES[rule.__name__](xs, factors, table)[b].numpy()
            expected = [rule(row) for row in xs[b].double().numpy()]
            np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-4)


def test_a_factor_is_read_from_all_columns() -> None:
    """Its sign is told by the mean column, up to a sign of each: better than by chance."""
    prompts = task(rules=["factor"]).sample(generator(), 300, 100)
    pairs = torch.stack((prompts.xs[:, :, 0], prompts.ys), dim=1)
    correlations = torch.stack([pair.corrcoef()[0, 1].abs() for pair in pairs])
    assert correlations.nanmean() > 0.15  # 0.08 where they are independent


def test_classes_are_cut_at_a_random_quantile() -> None:
    ys = task(balance=0.2).sample(generator(), 2000, 50).ys
    shares = (ys > 0).double().mean(1)
    assert shares.min() >= 0.2 - 0.02
    assert shares.max() <= 0.8 + 0.02
    assert shares.var().item() == pytest.approx(0.6**2 / 12, rel=0.1)


def test_noise_flips_and_missing_cells_change_nothing_else() -> None:
    """The same numbers are drawn. E[(3u - 2)₊] is 1/6, E[(4u - 3)₊] is 1/8, u uniform."""
    plain = task().sample(generator(), 1500, 40)
    flipped = task(flips=0.3).sample(generator(), 1500, 40)
    assert torch.equal(flipped.xs, plain.xs)
    assert_mean((flipped.ys != plain.ys).double().mean(1), 0.3 / 6)
    noisy, table = task(noise_std=1.0).draw(generator(), 1500, 40)
    changed = (noisy.ys != plain.ys).any(1)
    assert not changed[table.noise == 0].any()
    assert changed[table.noise > 0.5].double().mean() > 0.9
    assert_frequencies((table.noise > 0)[:, None], 1 / 2)
    holes = task(missing=0.4).sample(generator(), 1500, 40)
    assert torch.equal(holes.ys, plain.ys)
    is_hole = holes.xs != plain.xs
    assert not holes.xs[is_hole].any()
    present = plain.xs != 0
    assert_mean(is_hole.double().sum((1, 2)) / present.double().sum((1, 2)), 0.4 / 8)


def test_numbers_are_the_scores_of_which_classes_are_cuts() -> None:
    """Standardised by the context, of which the last row is not a part."""
    settings = {"noise_std": 1.0, "missing": 0.0, "kinds": ["heavy"], "rules": ["linear"]}
    prompts = task(**settings).sample(generator(), 200, 40)
    made = make_task("tables_prior_regression", DIMS, settings=settings)
    numbers = made.sample(generator(), 200, 40)
    assert torch.equal(numbers.xs, prompts.xs)
    mild = numbers.ys[numbers.ys.abs().max(1).values < 4, :-1]
    assert_mean(mild.mean(1), 0.0)
    torch.testing.assert_close(mild.std(1, correction=0), torch.ones(len(mild)))
    above = torch.where(prompts.ys > 0, numbers.ys, torch.inf).amin(1)
    below = torch.where(prompts.ys < 0, numbers.ys, -torch.inf).amax(1)
    assert (above >= below).all()


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"rules": ["forest"]}, "rules"),
        ({"kinds": []}, "kinds must hold at least one"),
        ({"balance": 0.6}, r"balance must be at most 0\.5, got 0\.6"),
        ({}, "shifts"),
    ],
)
def test_mistakes_are_named(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        task(**settings).outputs(torch.zeros(1, 2, DIMS), None)
