"""A grid: its members, the settings in which they differ, and its folder with grid.json, which has
its command and its members. No torch here.

grid = Grid.of(commands(["task=linear", "seed=0,1"], multirun=True)); grid.folder
keep_record(grid, words); read_grid(grid.folder).members[0].label
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from looplab.conf.actions import Command
from looplab.conf.checksum import key_of
from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config
from looplab.training.run_folder.files import read_record, write_record

SEED = "seed"
_KIND = "grid"


@dataclass(frozen=True)
class Member:
    """A run of a grid with one evaluation: its values of the settings in which members differ, its
    run folder, and its configuration."""

    values: tuple[tuple[str, str], ...]
    command: Command
    path: Path

    @property
    def config(self) -> Config:
        return self.command.config

    @property
    def label(self) -> str:
        """Its values as words; the name of its run where nothing varies."""
        return " ".join(f"{key}={value}" for key, value in self.values) or self.path.name

    @property
    def setting(self) -> tuple[tuple[str, str], ...]:
        """Its values but the seed: members of one setting are repetitions."""
        return tuple((key, value) for key, value in self.values if key != SEED)


@dataclass(frozen=True)
class Grid:
    """Members of one command that differ in the settings `varied`; `shared` are the other words."""

    members: tuple[Member, ...]
    varied: tuple[str, ...]
    shared: tuple[str, ...]

    @classmethod
    def of(cls, commands: Sequence[Command]) -> Grid:
        """The grid of commands that train or evaluate."""
        from looplab.training.run_folder.run import run_folder  # imports torch

        words = [dict(word.split("=", 1) for word in command.words) for command in commands]
        keys = list(dict.fromkeys(key for each in words for key in each))
        varied = [key for key in keys if len({each.get(key) for each in words}) > 1]
        members = tuple(
            Member(
                tuple((key, each.get(key, "")) for key in varied),
                command,
                Path(command.paths[0]) if command.paths else run_folder(command.config).path,
            )
            for command, each in zip(commands, words, strict=True)
        )
        shared = tuple(f"{key}={words[0][key]}" for key in keys if key not in varied)
        return cls(members, tuple(varied), shared)

    @cached_property
    def folder(self) -> Path:
        """Its folder, grid-<name>-<hash of runs and evaluations>, beside those of its runs: the
        same for the same runs in another order."""
        parts = [[each.path.name, asdict(each.config.evaluation)] for each in self.members]
        key = key_of(sorted(parts, key=str), 8)
        first = self.members[0].config
        return Path(first.folder) / (f"grid-{first.name}-{key}" if first.name else f"grid-{key}")

    @property
    def settings(self) -> dict[tuple[tuple[str, str], ...], list[Member]]:
        """The members of each setting, which differ in the seed alone."""
        found: dict[tuple[tuple[str, str], ...], list[Member]] = {}
        for member in self.members:
            found.setdefault(member.setting, []).append(member)
        return found


@dataclass(frozen=True)
class KeptMember:
    """A member by its label, its run folder and the words that train it alone."""

    label: str
    run: Path
    words: tuple[str, ...]


@dataclass(frozen=True)
class KeptGrid:
    """A grid by its folder, the words after `python run.py -m`, and its members."""

    folder: Path
    words: tuple[str, ...]
    members: tuple[KeptMember, ...]


def keep_record(grid: Grid, words: Sequence[str]) -> None:
    """Write grid.json."""
    members = [
        {"label": each.label, "run": str(each.path), "words": list(each.command.words)}
        for each in grid.members
    ]
    grid.folder.mkdir(parents=True, exist_ok=True)
    write_record(grid.folder / "grid.json", _KIND, {"words": list(words), "members": members})


def read_grid(folder: Path) -> KeptGrid:
    """Read grid.json; ConfigError where the folder is no grid's."""
    record = read_record(folder / "grid.json", _KIND)
    if record.content is None:
        problem = record.problem or f"{folder} has no grid.json"
        raise ConfigError("grid", f"must name the folder of a grid: {problem}")
    members = tuple(
        KeptMember(each["label"], Path(each["run"]), tuple(each["words"]))
        for each in record.content["members"]
    )
    return KeptGrid(folder, tuple(record.content["words"]), members)
