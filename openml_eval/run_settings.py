"""What `python -m openml_eval` may be asked for when it trains and tests. No torch here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal, get_args

from reloop.conf.mistakes import ConfigError, check_choice, check_count, check_seed

from .tables.catalogue import TABLES

Protocol = Literal["corrected", "reference"]
Family = Literal["looped", "tied", "standard"]
_MOST = 1_000_000  # contexts, draws of them and processes: no table has as many rows
# Settings of a run that follow from ours.
_OURS = {
    "task": "is tables here",
    "task.data_dir": "is set by data_dir=",
    "task.tables": "is set by tables=",
    "task.held_out": "is set by held_out=",
    "task.protocol": "is set by protocol=",
}


@dataclass(frozen=True)
class RunSettings:
    """Which tables take part and which are held out, one after another; which models; how they are
    scored, and how many processes work at once."""

    held_out: tuple[int | str, ...] = ("all",)  # OpenML ids and names
    tables: tuple[int | str, ...] = tuple(each.openml_id for each in TABLES)
    model: tuple[Family, ...] = ("looped", "standard")
    seeds: tuple[int, ...] | None = None  # of training; none: seed=
    protocol: Protocol = "corrected"
    data_dir: str = "openml_data"
    contexts: int = 64  # that a table's rows are answered from, for each evaluation seed
    evaluation_seeds: int | None = None  # draws of contexts; none: 2, the reference's 5
    jobs: int | None = None  # processes at once; none: as many as there are cores, one on a GPU

    @property
    def draws(self) -> int:
        """Evaluation seeds. Two are enough where all rows are asked about: over as many rows as the
        ten tables have, which rows there are moves an accuracy more than which contexts do."""
        return self.evaluation_seeds or (5 if self.protocol == "reference" else 2)

    def check(self) -> None:
        """Raises ConfigError for the first setting that cannot be."""
        for name in ("held_out", "tables", "model", "seeds"):
            values = getattr(self, name)
            if values is None:
                continue
            if not values:
                raise ConfigError(name, "must hold at least one")
            for value in values:
                if values.count(value) > 1:
                    raise ConfigError(name, f"holds {value} twice")
        for name in ("contexts", "evaluation_seeds", "jobs"):
            value = getattr(self, name)
            if value is not None:
                check_count(name, value, 1, _MOST)
        for seed in self.seeds or ():
            check_seed("seeds", seed)
        for family in self.model:
            check_choice("model", family, get_args(Family))
        if len(self.tables) < 2:
            raise ConfigError("tables", "must hold at least two: one is held out of training")
        if "all" in self.held_out and len(self.held_out) > 1:
            raise ConfigError("held_out", "holds all and more")


def split_words(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words that are settings of ours, and those that are a run's (as run.py takes them).

    Raises ConfigError for a run's setting that follows from one of ours.
    """
    known = {field.name for field in fields(RunSettings)}
    own = [word for word in words if word.partition("=")[0] in known]
    rest = [word for word in words if word.partition("=")[0] not in known]
    keys = [word.partition("=")[0] for word in rest]
    for key in keys:
        if key in _OURS:
            raise ConfigError(key, _OURS[key])
    if "seed" in keys and any(word.startswith("seeds=") for word in own):
        raise ConfigError("seed", "cannot stand beside seeds=")
    return own, rest
