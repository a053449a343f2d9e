"""Priors of tables, of two classes or of numbers, from which a model learns to read real ones.

task = make_task("tables_prior", dims=20)              # or "tables_prior_regression"
prompts = task.sample(torch.Generator().manual_seed(0), batch=64, points=41)
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from looplab.conf.mistakes import ConfigError, check_choice

from .random_source import RandomSource
from .table_rows import standardised
from .task import Classification, Prompts, RowsOnly, register_task

_HIDDEN = 8  # units of a network rule
_LEVELS = 3  # cuts of a tree rule, so that it has up to 2³ leaves
_CENTRES = 8  # of a centres rule
_MOST_VALUES = 8  # of a discrete or categorical column


@dataclass(frozen=True)
class _Table:
    """What tables of one prompt each are drawn from.

    `present` [B, d] and `relevant` [B, d] are 1 or 0; `loadings` [B, d, factors]; `kinds` [B, d]
    and `rule` [B] count in the settings of these names; `shapes` and `offsets` [B, d] are uniform,
    `codes` [B, d, _MOST_VALUES] normal; `from_shown` [B] says whether classes follow the columns as
    they are shown; `weights` has the random numbers of the rules; `cut`, `noise`, `mislabelled`
    and `missing` [B] are the prompt's own sizes.
    """

    present: Tensor
    relevant: Tensor
    loadings: Tensor
    kinds: Tensor
    shapes: Tensor
    offsets: Tensor
    codes: Tensor
    rule: Tensor
    from_shown: Tensor
    weights: dict[str, Tensor]
    cut: Tensor
    noise: Tensor
    mislabelled: Tensor
    missing: Tensor


@dataclass(frozen=True)
class _Prior(RowsOnly):
    """Prompts of random tables, one table each (as in TabPFN, arXiv 2207.01848; the prior is
    simpler).

    A table has f columns, f uniform in 1..dims; the other dimensions are 0. Latent columns are
    normal and share up to `factors` factors. Each is shown as one of `kinds`. Rows have a score, by
    one of `rules`, over a random share of the columns, with noise of up to `noise_std` times its
    standard deviation. Cells are missing at a random share of up to `missing`. Half of the tables
    have no noise, three quarters no missing cells. A rule that stands twice in `rules` is twice as
    likely.

    Inputs are standardised by the prompt's context and clipped at ±`clip`; a missing cell is 0.
    """

    factors: int = 2
    noise_std: float = 1.0
    missing: float = 0.3
    kinds: tuple[str, ...] = ("plain", "skewed", "heavy", "discrete", "categorical")
    rules: tuple[str, ...] = ("linear", "linear", "network", "tree", "centres", "factor")

    clip = 4.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, known in (("kinds", _KINDS), ("rules", _RULES)):
            if not getattr(self, name):
                raise ConfigError(name, "must hold at least one")
            for value in getattr(self, name):
                check_choice(name, value, tuple(known))
        self._check_most("missing", 1.0)

    def _check_most(self, name: str, most: float) -> None:
        """Raises ConfigError for a setting above `most`."""
        if getattr(self, name) > most:
            raise ConfigError(name, f"must be at most {most}, got {getattr(self, name)}")

    def parameters(self, random: RandomSource, dims: int) -> _Table:
        d = self.dims
        factors = self.factors

        def one() -> Tensor:
            return random.uniform(1)[:, 0]

        features = 1 + (one() * dims).long()
        present = (torch.arange(d, device=features.device) < features[:, None]).float()
        # A share of the columns is relevant, and at least one of those present.
        # Columns that are absent have keys above 1, and rank last.
        keys = random.uniform(d) + (1 - present)
        count = 1 + (one() * features).long()
        relevant = (keys.argsort(1).argsort(1) < count[:, None]).float()
        shared = (one() * (self.factors + 1)).long()
        # A table uses 0 to `factors` of its factors, each number as likely.
        used = (torch.arange(self.factors, device=features.device) < shared[:, None]).float()
        # What any rule needs is drawn for every table: a seed's numbers do not depend on its rule.
        weights = {
            "linear": random.normal(d),
            "hidden": random.normal(_HIDDEN, d),
            "bias": random.normal(_HIDDEN),
            "gain": 0.3 + 2.7 * one(),
            "out": random.normal(_HIDDEN),
            "cut_column": random.uniform(_LEVELS, d),
            "cut_at": random.normal(_LEVELS),
            "levels": 1 + (one() * _LEVELS).long(),
            "leaves": random.normal(2**_LEVELS),
            "centres": random.normal(_CENTRES, d),
            "centres_used": 2 + (one() * (_CENTRES - 1)).long(),
            "factor": random.normal(factors),
        }
        loadings = random.normal(d, factors) * used[:, None, :]
        strength = 2 * one()  # of a table's factors, uniform from 0 to 2
        # In this order: another one would give a seed other tables.
        kinds = (random.uniform(d) * len(self.kinds)).long()
        shapes = random.uniform(d)
        offsets = random.uniform(d)
        codes = random.normal(d, _MOST_VALUES)
        rule = (one() * len(self.rules)).long()
        from_shown = one() < 0.5
        cut = one()
        noise = self.noise_std * (2 * one() - 1).clamp_min(0)
        mislabelled = one()
        missing = self.missing * (4 * one() - 3).clamp_min(0)
        return _Table(
            present=present,
            relevant=relevant,
            loadings=loadings * strength[:, None, None],
            kinds=kinds,
            shapes=shapes,
            offsets=offsets,
            codes=codes,
            rule=rule,
            from_shown=from_shown,
            weights=weights,
            cut=cut,
            noise=noise,
            mislabelled=mislabelled,
            missing=missing,
        )

    def _rows(self, table: _Table, random: RandomSource, points: int) -> tuple[Tensor, Tensor]:
        """Inputs without missing cells [B, n, d], and noisy scores [B, n]."""
        d = self.dims
        factors = table.loadings.shape[2]
        s = random.normal(points, factors)
        variance = 1 + table.loadings.square().sum(2)[:, None]
        # Each column has variance 1, of its own and its factors' parts together.
        z = (random.normal(points, d) + s @ table.loadings.mT) / variance.sqrt()
        shown = self._shown(z, table)
        seen = standardised(shown).clamp(-self.clip, self.clip)
        # Scores follow what the model sees in half of the tables, the latent columns in the others.
        basis = torch.where(table.from_shown[:, None, None], seen, z)
        score = self._score(basis, s, table)
        # Of standard deviation 1 over the prompt, so that the noise is in its units.
        score = score / score.std(1, keepdim=True).clamp_min(1e-6)
        return seen, score + table.noise[:, None] * random.normal(points)

    def _with_missing(self, xs: Tensor, table: _Table, random: RandomSource) -> Tensor:
        """Inputs [B, n, d] with 0 for missing cells, and in columns that a table does not have."""
        absent = random.uniform(*xs.shape[1:]) < table.missing[:, None, None]
        return xs.masked_fill(absent, 0.0) * table.present[:, None]

    def _shown(self, z: Tensor, table: _Table) -> Tensor:
        """The columns as they are shown, [B, n, d]."""
        shown = torch.zeros_like(z)
        # Each kind for all columns, of which one is kept: a captured step cannot branch on draws.
        for index, kind in enumerate(self.kinds):
            shown = torch.where(table.kinds[:, None] == index, _KINDS[kind](z, table), shown)
        return shown

    def _score(self, xs: Tensor, factors: Tensor, table: _Table) -> Tensor:
        """The scores [B, n] of rows, from columns [B, n, d] and factors [B, n, factors]."""
        score = torch.zeros_like(xs[:, :, 0])
        for index, rule in enumerate(self.rules):
            score = torch.where(
                table.rule[:, None] == index, _RULES[rule](xs, factors, table), score
            )
        return score


@register_task("tables_prior")
@dataclass(frozen=True)
class TablesPrior(_Prior, Classification):
    """Prompts of random tables, one table each, with two classes (as in TabPFN, arXiv 2207.01848;
    the prior is simpler).

    Rows and their noisy scores are those of `_Prior`. A row is of class 1 where its score lies
    above a random quantile between `balance` and 1 - `balance`. Labels are flipped at a random
    share of up to `flips`, in a third of the tables.
    """

    flips: float = 0.3
    balance: float = 0.1

    baselines = ("logistic", "majority", "nearest_neighbours")

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_most("flips", 1.0)
        self._check_most("balance", 0.5)

    def prompts(self, parameters: Any, random: RandomSource, points: int, dims: int) -> Prompts:
        table: _Table = parameters
        xs, score = self._rows(table, random, points)
        quantile = self.balance + (1 - 2 * self.balance) * table.cut
        classes = _above_quantile(score, quantile)
        # 0 for two thirds of the tables, else uniform up to `flips`.
        flips = self.flips * (3 * table.mislabelled - 2).clamp_min(0)
        flipped = random.uniform(points) < flips[:, None]
        labels = torch.where(classes ^ flipped, 1.0, -1.0).float()
        return Prompts(self._with_missing(xs, table, random), labels)


@register_task("tables_prior_regression")
@dataclass(frozen=True)
class TablesPriorRegression(_Prior):
    """Prompts of random tables, one table each, with a number to predict: the noisy score of
    `_Prior`, standardised by the prompt's context and clipped at ±`clip`.

    Errors are over the variance of the numbers, noise included: 1 minus them is R².
    """

    noise_std: float = 1.5

    baselines = ("ridge", "averaging", "nearest_neighbours")

    @property
    def divisor(self) -> float:
        return 1.0

    def prompts(self, parameters: Any, random: RandomSource, points: int, dims: int) -> Prompts:
        table: _Table = parameters
        xs, score = self._rows(table, random, points)
        ys = standardised(score[:, :, None])[:, :, 0].clamp(-self.clip, self.clip)
        return Prompts(self._with_missing(xs, table, random), ys)


def _above_quantile(score: Tensor, quantile: Tensor) -> Tensor:
    """Whether scores [B, n] lie above their quantile [B]; where none does, whether they reach
    it."""
    points = score.shape[1]
    index = (quantile * points).long().clamp(max=points - 1)
    cut = score.sort(1).values.gather(1, index[:, None])
    above = score > cut
    return torch.where(above.any(1, keepdim=True), above, score >= cut)


def _plain(z: Tensor, table: _Table) -> Tensor:
    return z


def _skewed(z: Tensor, table: _Table) -> Tensor:
    """±exp(a z), a from .3 to 1.5."""
    sign = torch.where(table.offsets < 0.5, -1.0, 1.0)[:, None]
    return sign * torch.exp((0.3 + 1.2 * table.shapes)[:, None] * z)


def _heavy(z: Tensor, table: _Table) -> Tensor:
    """z |z|^2t, t uniform."""
    return z * z.abs().pow(2 * table.shapes[:, None])


def _number_of_value(z: Tensor, table: _Table) -> Tensor:
    """Which of its column's 2 to _MOST_VALUES values a row has, [B, n, d]: low or high ones are
    likelier, by the column's offset."""
    count = 2 + (table.shapes * (_MOST_VALUES - 1)).long()[:, None]
    shift = (2 * table.offsets - 1)[:, None]
    # Φ(z + shift): uniform where the offset does not shift it.
    uniform = 0.5 * (1 + torch.erf((z + shift) / math.sqrt(2)))
    # erf rounds to 1 for large z, and `count` itself is no value.
    return torch.minimum((uniform * count).long(), count - 1)


def _discrete(z: Tensor, table: _Table) -> Tensor:
    return _number_of_value(z, table).float()


def _categorical(z: Tensor, table: _Table) -> Tensor:
    """Values in no order: each has a random code."""
    index = _number_of_value(z, table)
    # [B, values, d]: each row takes the code of its value, column by column.
    return table.codes.mT.gather(1, index)


def _linear(xs: Tensor, factors: Tensor, table: _Table) -> Tensor:
    weights = table.weights["linear"] * table.relevant
    return (xs @ weights[:, :, None])[:, :, 0]


def _network(xs: Tensor, factors: Tensor, table: _Table) -> Tensor:
    """Σ_h a_h tanh(g w_h·x + b_h), w_h of length about 1."""
    # A normal vector over r relevant columns has a length of about √r.
    scale = table.weights["gain"] / table.relevant.sum(1).sqrt()
    hidden = table.weights["hidden"] * (table.relevant * scale[:, None])[:, None]
    units = torch.tanh(xs @ hidden.mT + table.weights["bias"][:, None])
    return (units @ table.weights["out"][:, :, None])[:, :, 0]


def _tree(xs: Tensor, factors: Tensor, table: _Table) -> Tensor:
    """A value for each leaf of a tree of up to _LEVELS cuts, each of one relevant column, the same
    in all branches."""
    # The largest of uniform keys, 0 where a column is irrelevant: [B, levels, d].
    keys = table.weights["cut_column"] * table.relevant[:, None]
    column = keys.argmax(2)  # [B, levels]
    cut = xs.gather(2, column[:, None, :].expand(-1, xs.shape[1], -1))
    bits = cut > table.weights["cut_at"][:, None]
    levels = torch.arange(_LEVELS, device=xs.device)
    bits = bits & (levels < table.weights["levels"][:, None])[:, None]
    # The outcomes of the cuts are the binary digits of the leaf's number.
    leaf = (bits.long() << levels).sum(2)
    return table.weights["leaves"].gather(1, leaf)


def _centres(xs: Tensor, factors: Tensor, table: _Table) -> Tensor:
    """How much nearer the nearest of the even centres is than the nearest of the odd ones, in
    squared distance."""
    relevant = table.relevant[:, None]
    centres = table.weights["centres"] * relevant
    # |x - c|² without |x|², which is the same for all centres.
    distance = centres.square().sum(2)[:, None] - 2 * xs @ centres.mT
    number = torch.arange(_CENTRES, device=xs.device)
    unused = number >= table.weights["centres_used"][:, None]
    distance = distance.masked_fill(unused[:, None], math.inf)
    return distance[:, :, 1::2].amin(2) - distance[:, :, ::2].amin(2)


def _factor(xs: Tensor, factors: Tensor, table: _Table) -> Tensor:
    """Of the factors that columns share: each column is a noisy reading of them."""
    return (factors @ table.weights["factor"][:, :, None])[:, :, 0]


_KINDS: dict[str, Callable[[Tensor, _Table], Tensor]] = {
    "plain": _plain,
    "skewed": _skewed,
    "heavy": _heavy,
    "discrete": _discrete,
    "categorical": _categorical,
}
_RULES: dict[str, Callable[[Tensor, Tensor, _Table], Tensor]] = {
    "linear": _linear,
    "network": _network,
    "tree": _tree,
    "centres": _centres,
    "factor": _factor,
}
