"""Parts of the page that were made before: each is kept in a file named by what it was made from,
so that nothing that has not changed is drawn again.

kept = Kept(Path("runs/report_cache")); kept.part([path, …], lambda: make())
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from looplab.training.run_folder.files import read_record, write_record

_KIND = "report part"
# The code that parts are made by.
_CODE = (
    *("experiments/report/*.py", "experiments/named/results.py", "experiments/scaling_law/*.py"),
    *("evaluation/figures/*.py", "evaluation/style.py"),
)


class Kept:
    """The parts in a folder. `used` and `made` count those that were found and the others."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.used, self.made = folder, 0, 0
        home = Path(__file__).parents[2]
        paths = (path for pattern in _CODE for path in sorted(home.glob(pattern)))
        self._code = hashlib.sha256(b"".join(path.read_bytes() for path in paths)).digest()
        self._names: set[str] = set()

    def part(self, files: Sequence[Path], more: object, make: Callable[[], Any]) -> Any:
        """The part made from the content of these files and from `more`, plain values: the kept
        one, or that which `make` gives, plain values as well."""
        path = self.folder / f"{self._key(files, more)}.json"
        self._names.add(path.name)
        record = read_record(path, _KIND)
        if record.content is not None and record.sealed:
            self.used += 1
            return record.content["part"]
        self.made += 1
        part = make()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_record(path, _KIND, {"part": part})
        except OSError:  # a folder that cannot be written to: drawn again the next time
            pass
        return part

    def remove_others(self) -> None:
        """Remove the parts that were not asked for since this object was made."""
        for path in self.folder.glob("*.json"):
            if path.name not in self._names:
                path.unlink(missing_ok=True)

    def _key(self, files: Sequence[Path], more: object) -> str:
        digest = hashlib.sha256(self._code)
        digest.update(json.dumps(more, sort_keys=True).encode())
        for path in files:
            try:
                content = path.read_bytes()
            except OSError:
                content = b""
            digest.update(f"\n{path.name} {len(content)}\n".encode())
            digest.update(content)
        return digest.hexdigest()[:32]
