"""An evaluation of a run, as `evaluate` makes it and evaluation.json has it. No torch here.

evaluation = Evaluation.read(content)
evaluation.by_examples.bands["model"]["mean"][5]     # the error after five examples
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from .bootstrap import Band
from .plain import Content, Plain

Bands = Mapping[str, Band]
Labels = Mapping[str, str]  # of solvers, by their name
FORMAT = 4  # of evaluation.json; an older one is computed again


@dataclass(frozen=True, kw_only=True)
class ByExamples(Plain):
    """Errors by the number of examples in the prompt; of a text by the tokens before."""

    REST = "bands"
    k: Sequence[int]  # from 0
    # Of each k: the errors of the "model" at the evaluation's loops, "model_at_b", those of each
    # solver by its name; and with a halting rule the mean "loops_used".
    bands: Bands


@dataclass(frozen=True, kw_only=True)
class ShiftErrors(ByExamples):
    """Errors on shifted inputs, over the task's divisor as well."""

    label: str
    zero: float  # the error of predicting zero
    labels: Labels
    by_loop: Band  # the last query's error after each loop, from 1


@dataclass(frozen=True, kw_only=True)
class NearLeast(Plain):
    """The first loop whose mean error is near the least of all loops."""

    within: float  # of the least, as a share of it
    loop: int
    low: float  # of the loop's 90 % interval
    high: float


@dataclass(frozen=True, kw_only=True)
class ByLoop(Plain):
    """What each loop does to the last query; of a text the means over all tokens."""

    loop: Sequence[int]  # from 1
    model: Band  # its error after each loop
    state_change: Band  # over the state's norm; None at loop 1
    prediction_change: Band  # over the standard deviation of y; None at loop 1
    near_least: NearLeast


@dataclass(frozen=True, kw_only=True)
class EarlyExit(Plain):
    """Of each tolerance the mean number of loops that it takes, and the last query's error."""

    loops: Band
    error: Band


@dataclass(frozen=True, kw_only=True)
class HaltingSavings(Plain):
    """What halting would save: on the change of the state, or of the prediction."""

    tolerance: Sequence[float]
    state: EarlyExit
    prediction: EarlyExit


@dataclass(frozen=True, kw_only=True)
class AboveOptimal(Plain):
    """The model's errors by examples less those of a solver, paired by prompt."""

    REST = "bands"
    over: str  # the solver's name
    bands: Bands  # "model" and "model_at_b", of each k


@dataclass(frozen=True, kw_only=True)
class Size(Plain):
    """A language model's parameters, and the FLOPs of training on a token of a whole sequence."""

    backbone: int  # parameters without embedding and head
    embedding: int  # those of embedding and head
    flops: float  # with every loop of the last step
    flops_of_one_loop: float  # as the code of arXiv 2605.18797 estimates them


@dataclass(frozen=True, kw_only=True)
class TextScores(Plain):
    """How much of a text was read, and by loop how well; means over its blocks."""

    tokens: int
    bytes: int
    words: int
    loop: Sequence[int]  # from 1
    bits_per_byte: Band
    nats: Band  # of a token
    perplexity: Band  # of a token
    word_perplexity: Band
    running_perplexity: Band | None = None  # of a token, in blocks without start tokens
    solvers: Bands | None = None  # bits per byte by label, one number each


@dataclass(frozen=True, kw_only=True)
class Texts(Plain):
    """What is measured of a language model alone."""

    size: Size
    texts: Mapping[str, TextScores]  # "held_out", and the files of `task.eval` by name


@dataclass(frozen=True, kw_only=True)
class OfTask(Plain):
    """What errors are of, the same for all runs that are compared."""

    task: str
    dims: int
    divisor: float  # the variance of y in training, which squared errors are over
    error: str  # what the errors are: `results.error_name`
    prompts: int
    seed: int  # of prompts and of resamples
    labels: Labels
    normalise: str = "none"  # how the model reads prompts


@dataclass(frozen=True, kw_only=True)
class OfModel(Plain):
    """The errors of one model, which a comparison has of each of its runs."""

    family: str
    style: str  # the kind of its curves: `results.kind_of`
    b: int  # the loops of training; layers of a standard model
    loops: int | Literal["auto"]  # that errors by examples are read at; auto: with early exit
    step: int  # of training
    by_examples: ByExamples
    by_loop: ByLoop
    key: str = ""  # of the request that the evaluation is kept under


@dataclass(frozen=True, kw_only=True)
class Evaluation(OfModel, OfTask):
    """A run's errors on the evaluation prompts, as means with 90 % intervals."""

    REST = "record"
    halting: HaltingSavings
    shifts: Mapping[str, ShiftErrors]
    published: Sequence[Content]  # curves beside it: `published.published`
    published_loops: Sequence[int]  # at which such curves of this model are
    above_optimal: AboveOptimal | None = None  # where the task has an optimum
    language: Texts | None = None  # of a text's task
    remarks: Sequence[str] = ()  # that the numbers must be read with
    # What the file has beside: the request that is answered, its resolved `settings` among it, and
    # the command that asks for it.
    record: Content

    @property
    def named(self) -> bool:
        """The solvers were named by the settings, so that none is left out of a picture."""
        return self.record["settings"]["baselines"] is not None
