"""The figures and the settings of `python -m experiments.stability`. No torch here."""

from __future__ import annotations

import math
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import NamedTuple

from looplab.conf.checks.folders import check_folder
from looplab.conf.mistakes import ConfigError, check_choice, check_count
from looplab.conf.saved import read_config
from looplab.conf.schema import FigureSettings, TableSettings
from looplab.conf.setting import check_settings, setting

_LOOPS = (1, 2, 4, 8, 16, 32, 64)  # arXiv 2606.18524, Figure 2
_RATES = (5e-4, 1e-3, 2e-3, 4e-3, 8e-3)
_MAX_SEEDS = 100_000
SLOPES_FROM = 4  # loops; with fewer, terms that do not grow with them still matter


class Figure(NamedTuple):
    """A figure: what it shows, and the settings that it uses beside `figure` and `folder`; its
    defaults of loops, learning rates, seeds and `init`; and the module of this folder that
    measures, reports and draws it, if it has another name."""

    shows: str
    takes: tuple[str, ...]
    loops: tuple[int, ...] = _LOOPS
    rates: tuple[float, ...] = ()
    seeds: int = 10
    init: str = "weak"
    module: str = ""


SCALINGS = ("none", "sqrt", "linear")  # of arXiv 2606.18524: 1, 1/√R, 1/R
_SEEDS = ("seeds", "seed")
_TRAINED = ("loops", "rates", *_SEEDS, "steps", "jobs")
_CONNECTED = ((4, 8, 16), (1e-3,), 3)
FIGURES = {
    "toy": Figure(
        "the norm of one ReLU layer, looped and not, and how far one update moves it",
        ("loops", *_SEEDS),
    ),
    "norms": Figure(
        "a transformer's residual norm over its first ten steps, looped and not",
        ("init", "loops", *_SEEDS),
        init="strong",  # with weak branches no norm moves
    ),
    "cosines": Figure(
        "cosines between the increments of sixteen loops of 12 blocks, shared and not",
        ("init", *_SEEDS),
    ),
    "changes": Figure(
        "how far one optimiser step moves a looped transformer's output, by loops",
        ("init", "loops", *_SEEDS),
    ),
    "trained": Figure(
        "norms and cosines of increments by loop, of trained runs side by side", ("runs", "seed")
    ),
    "sweep": Figure(
        "final error by learning rate, loops and residual scaling, sqrt against linear",
        _TRAINED,
        *((2, 4, 8, 16), _RATES, 3),
    ),
    "contrast": Figure(
        "the same of a loop that norms its stream, none against linear",
        _TRAINED,
        *((4, 16), _RATES, 3),
        module="sweep",
    ),
    "variants": Figure(
        "error, plateau and collapse of the fully looped paper's loops", _TRAINED, *_CONNECTED
    ),
    "fully_looped": Figure(
        "residual and gradient norms of LT and FLT in training", _TRAINED, *_CONNECTED
    ),
}


class Init(NamedTuple):
    """A transformer near its initialisation: its U layers, the standard deviations of its embedding
    and of its blocks' matrices, and AdamW's learning rate."""

    layers: int
    embedding_std: float
    block_std: float
    learning_rate: float


WIDTH = 64
# Weak and strong: the size of the branches relative to the embedding.
INITS = {
    "weak": Init(1, 1.0, 0.01, 1e-4),
    "strong": Init(1, 2.0, WIDTH**-0.5, 1e-4),
    "paper_like": Init(4, 0.02, 0.02, 1e-3),
}


@dataclass(frozen=True)
class StabilitySettings:
    """The figure, what it is drawn of (init, loops, rates and seeds: null for the figure's own),
    and where it is written."""

    figure: str = setting(MISSING, "which figure")
    init: str | None = setting(None, "weights of a new model: weak, strong or paper_like")
    runs: tuple[str, ...] = setting((), "figure=trained: run folders")
    loops: tuple[int, ...] | None = setting(None, "numbers of loops, rising", at_least=1)
    rates: tuple[float, ...] | None = setting(None, "learning rates, rising", above=0)
    seeds: int | None = setting(None, "how many seeds")
    seed: int = setting(0, "the first of them", at_least=0)
    steps: int = setting(2000, "of each training", at_least=1)
    jobs: int = setting(2, "processes that train at once", at_least=1)
    folder: str = setting("stability", "where pictures, CSV and JSON are written")
    figures: FigureSettings = FigureSettings()
    tables: TableSettings = TableSettings()

    def check(self) -> None:
        """Raises ConfigError for the first setting that is invalid, or that this figure does not
        use."""
        check_choice("figure", self.figure, FIGURES)
        for field in fields(self):
            is_changed = getattr(self, field.name) != field.default
            takes = ("figure", "folder", "figures", "tables", *FIGURES[self.figure].takes)
            if is_changed and field.name not in takes:
                raise ConfigError(field.name, f"does not bear on figure={self.figure}")
        check_choice("init", self.init_name, INITS)
        self._check_loops()
        self._check_rates()
        if self.figure == "trained":
            if not self.runs:
                raise ConfigError("runs", "must name run folders: 'runs=[runs/A,runs/B]'")
            for run in self.runs:
                read_config(Path(run))
        check_settings("", self)
        minimum = 1 if self.all_rates else 2  # one has no spread
        check_count("seeds", self._number_of_seeds, minimum, _MAX_SEEDS)
        check_folder("folder", self.folder)

    @property
    def init_name(self) -> str:
        """The name of the init, a key of INITS."""
        return FIGURES[self.figure].init if self.init is None else self.init

    @property
    def all_loops(self) -> tuple[int, ...]:
        """The values of R, or K."""
        return FIGURES[self.figure].loops if self.loops is None else self.loops

    @property
    def all_rates(self) -> tuple[float, ...]:
        """The learning rates of the trainings."""
        return FIGURES[self.figure].rates if self.rates is None else self.rates

    @property
    def all_seeds(self) -> tuple[int, ...]:
        """The seeds, counted from `seed`."""
        return tuple(range(self.seed, self.seed + self._number_of_seeds))

    @property
    def _number_of_seeds(self) -> int:
        return FIGURES[self.figure].seeds if self.seeds is None else self.seeds

    @property
    def name(self) -> str:
        """The name of the figure's files."""
        takes = FIGURES[self.figure].takes
        return f"{self.figure}-{self.init_name}" if "init" in takes else self.figure

    def _check_loops(self) -> None:
        loops = list(self.all_loops)
        if not loops or min(loops) < 1 or loops != sorted(set(loops)):
            raise ConfigError("loops", f"must be rising numbers of at least 1, got {loops}")
        if self.figure == "changes" and sum(r >= SLOPES_FROM for r in loops) < 2:
            raise ConfigError(
                "loops",
                f"must hold two numbers from {SLOPES_FROM} on, over which slopes are taken, "
                f"got {loops}",
            )
        if self._sweeps and len(loops) < 2:
            raise ConfigError("loops", f"must be at least 2 to compare, got {loops}")

    def _check_rates(self) -> None:
        rates = list(self.all_rates)
        if not FIGURES[self.figure].rates:
            return
        if rates != sorted(set(rates)) or not all(0 < rate < math.inf for rate in rates):
            raise ConfigError("rates", f"must be rising numbers above 0, got {rates}")
        if self._sweeps and len(rates) < 3:
            raise ConfigError("rates", f"must be at least 3 to sweep over, got {rates}")
        if not self._sweeps and len(rates) != 1:
            raise ConfigError("rates", f"must be one for figure={self.figure}, got {rates}")

    @property
    def _sweeps(self) -> bool:
        return len(FIGURES[self.figure].rates) > 1
