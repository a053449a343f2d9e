"""What `python -m probing.stability` may be asked for: its figures and settings. No torch here."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import NamedTuple

from conf.build import read_config
from conf.checks import ConfigError, check_choice

_LOOPS = (1, 2, 4, 8, 16, 32, 64)  # arXiv 2606.18524, Figure 2
SLOPES_FROM = 4  # loops; with fewer, what does not grow with them has its share


class Figure(NamedTuple):
    """A figure: the module of this room that measures, reports and draws it, what it shows, and the
    settings that bear on it beside `figure` and `folder`."""

    module: str
    shows: str
    takes: tuple[str, ...]


_SEEDS = ("seeds", "seed")
FIGURES = {
    "toy": Figure(
        "stability_toy",
        "the norm of one ReLU layer, looped and not, and how far one update moves it",
        ("loops", *_SEEDS),
    ),
    "norms": Figure(
        "stability_norms",
        "a transformer's residual norm over its first ten steps, looped and not",
        ("setting", "loops", *_SEEDS),
    ),
    "cosines": Figure(
        "stability_cosines",
        "cosines between the increments of sixteen loops of 12 blocks, shared and not",
        ("setting", *_SEEDS),
    ),
    "trained": Figure(
        "stability_trained",
        "norms and cosines of increments by loop, of trained runs side by side",
        ("runs", "seed"),
    ),
    "changes": Figure(
        "stability_changes",
        "how far one optimiser step moves a looped transformer's output, by loops",
        ("setting", "loops", *_SEEDS),
    ),
}


class Setting(NamedTuple):
    """A transformer near its initialisation: its U layers, the standard deviations of its embedding
    and of its blocks' matrices, and AdamW's learning rate."""

    layers: int
    embedding_std: float
    block_std: float
    learning_rate: float


WIDTH = 64
# Weak and strong say how large the branches are beside the embedding.
SETTINGS = {
    "weak": Setting(1, 1.0, 0.01, 1e-4),
    "strong": Setting(1, 2.0, WIDTH**-0.5, 1e-4),
    "paper_like": Setting(4, 0.02, 0.02, 1e-3),
}


@dataclass(frozen=True)
class StabilitySettings:
    """The figure, what it is drawn of, and where it is written."""

    figure: str
    setting: str = "weak"
    loops: tuple[int, ...] = _LOOPS
    seeds: int = 10
    seed: int = 0
    runs: tuple[str, ...] = ()  # trained: run folders
    folder: str = "stability"

    def check(self) -> None:
        """Raises ConfigError for the first setting that cannot be, or that this figure does not
        look at."""
        check_choice("figure", self.figure, FIGURES)
        for field in fields(self):
            unlike = getattr(self, field.name) != field.default
            takes = ("figure", "folder", *FIGURES[self.figure].takes)
            if unlike and field.name not in takes:
                raise ConfigError(field.name, f"does not bear on figure={self.figure}")
        check_choice("setting", self.setting, SETTINGS)
        if not self.loops or min(self.loops) < 1 or list(self.loops) != sorted(set(self.loops)):
            raise ConfigError(
                "loops", f"must be rising numbers of at least 1, got {list(self.loops)}"
            )
        if self.figure == "changes" and sum(r >= SLOPES_FROM for r in self.loops) < 2:
            raise ConfigError(
                "loops",
                f"must hold two numbers from {SLOPES_FROM} on, over which slopes are taken, "
                f"got {list(self.loops)}",
            )
        if self.figure == "trained":
            self._check_runs()
        _at_least("seeds", self.seeds, 2)  # one has no spread
        _at_least("seed", self.seed, 0)
        if self.seed >= 2**62:
            raise ConfigError("seed", f"must be below 2^62, got {self.seed}")
        if Path(self.folder).exists() and not Path(self.folder).is_dir():
            raise ConfigError(
                "folder", f"must be a folder or a new one's path, got {self.folder!r}"
            )

    def _check_runs(self) -> None:
        if not self.runs:
            raise ConfigError("runs", "must name run folders: 'runs=[runs/A,runs/B]'")
        for run in self.runs:
            read_config(Path(run))

    @property
    def name(self) -> str:
        """What the figure's files are called."""
        takes = FIGURES[self.figure].takes
        return f"{self.figure}-{self.setting}" if "setting" in takes else self.figure


def _at_least(key: str, value: int, least: int) -> None:
    if value < least:
        raise ConfigError(key, f"must be at least {least}, got {value}")
