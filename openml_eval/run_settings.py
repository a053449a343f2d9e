"""Settings of `python -m openml_eval` when it trains and tests. No torch here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal

from reloop.conf.mistakes import ConfigError
from reloop.conf.setting import check_settings, setting

from .tables.catalogue import TABLES

Protocol = Literal["corrected", "reference"]
Family = Literal["looped", "tied", "standard"]
_MOST = 1_000_000  # contexts, evaluation seeds and processes: no table has as many rows
# Settings of a run that follow from those of this command.
_DERIVED = {
    "task": "is tables here",
    "task.data_dir": "is set by data_dir=",
    "task.tables": "is set by tables=",
    "task.held_out": "is set by held_out=",
    "task.protocol": "is set by protocol=",
}


@dataclass(frozen=True)
class RunSettings:
    """The tables, and those of them that are held out one after another; the models; the scoring;
    and the number of processes."""

    held_out: tuple[int | str, ...] = setting(("all",), "OpenML ids and names, or all in turn")
    tables: tuple[int | str, ...] = setting(
        tuple(entry.openml_id for entry in TABLES),
        "ids and names of those that take part",
    )
    model: tuple[Family, ...] = setting(("looped", "standard"), "families of models")
    seeds: tuple[int, ...] | None = setting(None, "of training; null: seed=", at_least=0)
    protocol: Protocol = setting("corrected", "or reference: the published one, with its flaws")
    data_dir: str = setting("openml_data", "where the tables are stored")
    contexts: int = setting(64, "contexts that rows are answered from", at_least=1, at_most=_MOST)
    evaluation_seeds: int | None = setting(
        None, "draws of contexts; null: 2, the reference's 5", at_least=1, at_most=_MOST
    )
    jobs: int | None = setting(
        None, "processes at once; null: one a core, one on a GPU", at_least=1, at_most=_MOST
    )

    @property
    def draws(self) -> int:
        """The number of evaluation seeds. Two are enough if all rows are queries: with as many rows
        as the ten tables have, an accuracy varies more with the rows than with the contexts."""
        return self.evaluation_seeds or (5 if self.protocol == "reference" else 2)

    def check(self) -> None:
        """Raises ConfigError for the first invalid setting."""
        for name in ("held_out", "tables", "model", "seeds"):
            values = getattr(self, name)
            if values is None:
                continue
            if not values:
                raise ConfigError(name, "must hold at least one")
            for value in values:
                if values.count(value) > 1:
                    raise ConfigError(name, f"holds {value} twice")
        check_settings("", self)
        if len(self.tables) < 2:
            raise ConfigError("tables", "must hold at least two: one is held out of training")
        if "all" in self.held_out and len(self.held_out) > 1:
            raise ConfigError("held_out", "holds all and more")


def split_words(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words that are settings of this command, and those of a run (as for run.py).

    Raises ConfigError for a run's setting that follows from one of this command.
    """
    names = {field.name for field in fields(RunSettings)}
    own_words = [word for word in words if word.partition("=")[0] in names]
    rest = [word for word in words if word.partition("=")[0] not in names]
    keys = [word.partition("=")[0] for word in rest]
    for key in keys:
        if key in _DERIVED:
            raise ConfigError(key, _DERIVED[key])
    if "seed" in keys and any(word.startswith("seeds=") for word in own_words):
        raise ConfigError("seed", "cannot stand beside seeds=")
    return own_words, rest
