"""Parts of the page that were made before: each is stored under what it was made from, so that
nothing that has not changed is drawn again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from looplab.conf.checksum import key_of
from looplab.evaluation.kept import found, kept, sha256_of
from looplab.training.run_folder.sources import sources_of

_KIND = "report part"


class Kept:
    """The parts in a folder. `used` and `made` count those that were found and the others."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.used, self.made = folder, 0, 0
        self._code = sources_of("evaluation", "experiments")
        self._names: set[str] = set()

    def part(self, files: Sequence[Path], more: object, make: Callable[[], Any]) -> Any:
        """The part made from the content of these files and from `more`, plain values: the kept
        one, or that which `make` gives, plain values as well."""
        content = {path.name: sha256_of(path) for path in files}
        request = {"files": content, "more": more, "code": key_of(self._code)}
        self._names.add(f"{key_of(request)}.json")
        result = found(self.folder, _KIND, request)
        if result is not None:
            self.used += 1
            return result["part"]
        self.made += 1
        try:
            return kept(self.folder, _KIND, request, lambda: ({"part": make()}, None))["part"]
        except OSError:  # a folder that cannot be written to: drawn again the next time
            return make()

    def remove_others(self) -> None:
        """Remove the parts that were not asked for since this object was made."""
        for path in self.folder.glob("*.json"):
            if path.name not in self._names:
                path.unlink(missing_ok=True)
