"""The archive that benchmarks/gpu_report.sh writes: parts, their JSON and their logs."""

from __future__ import annotations

import json
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, TypeVar

from reloop.conf.mistakes import ConfigError

NAME = "report.tar.gz"
_T = TypeVar("_T")


class Part(NamedTuple):
    """A part of the script: its half, its exit code (-1: no time was left for it), the seconds it
    took and those it might take."""

    half: int
    part: str
    exit_code: int
    seconds: float
    limit: float


@dataclass
class Report:
    """The parts by half and name, in their order; what they measured, by name; the logs of their
    tests, by name and file."""

    parts: dict[tuple[int, str], Part] = field(default_factory=dict)
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    tests: dict[str, dict[str, str]] = field(default_factory=dict)


def read_archives(folders: Sequence[Path]) -> Report:
    """The archives of these folders in one; of a part in several the last counts. ConfigError for a
    folder without an archive and for one that cannot be read."""
    report = Report()
    for folder in folders:
        archive = folder / NAME
        if not archive.is_file():
            raise ConfigError("folders", f"{folder} holds no {NAME}")
        try:
            texts = dict(_texts(archive))
        except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
            raise ConfigError("folders", f"{archive} cannot be read ({error})") from None
        for path, text in texts.items():
            _add(report, path, text)
    report.parts = dict(sorted(report.parts.items(), key=lambda item: item[1].half))
    names = [part.part for part in report.parts.values()]
    report.results = _in_order(report.results, names)
    report.tests = _in_order(report.tests, names)
    return report


def _in_order(found: dict[str, _T], names: Iterable[str]) -> dict[str, _T]:
    """The same in the order of the names; others, of a part that was killed, come last."""
    return {name: found[name] for name in names if name in found} | found


def _texts(archive: Path) -> Iterator[tuple[PurePosixPath, str]]:
    with tarfile.open(archive) as files:
        for member in files:
            if (file := files.extractfile(member)) is not None:
                yield PurePosixPath(member.name), file.read().decode("utf-8", "replace")


def _add(report: Report, path: PurePosixPath, text: str) -> None:
    """A file of a half: parts.jsonl, NAME.json, NAME.log, or NAME/FILE.log of tests."""
    names = path.parts
    if path.name == "parts.jsonl":
        parts = [Part(**json.loads(line)) for line in text.splitlines()]
        report.parts |= {(part.half, part.part): part for part in parts}
    elif path.suffix == ".json":
        report.results[path.stem] = json.loads(text)
    elif path.suffix == ".log" and len(names) == 3:
        report.tests.setdefault(names[1], {})[path.stem] = text
