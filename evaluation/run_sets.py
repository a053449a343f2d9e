"""The grids and experiments beside run folders. No torch here.

run_sets_in([Path("runs")])
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from looplab.training.run_folder.files import read_record

BEGUN = "begun"  # .json: what a grid writes before it trains


@dataclass(frozen=True)
class RunSet:
    """A grid or experiment. `path` is its folder; `runs` has what each run is within it, by the
    path of its run folder, without models that ship."""

    path: Path
    title: str
    command: str
    runs: Mapping[str, str]


def run_sets_in(folders: Iterable[Path]) -> list[RunSet]:
    """The grids, also those that were interrupted, and the experiments of the runs in each of the
    folders, the newest first."""
    parents = dict[Path, Path]()
    for folder in folders:
        for pattern in ("grid-*", "experiments/*"):
            parents |= dict.fromkeys(folder.glob(pattern), folder)
    groups = []
    for path in sorted(parents, key=lambda path: -path.stat().st_mtime):
        # Grids write it before they train; experiments have a result alone.
        begun = read_record(path / f"{BEGUN}.json", BEGUN).content
        content = begun or read_record(path / "result.json", "experiment").content or {}
        runs = {}
        for member in content.get("members", ()):
            if not member["run"].startswith("shipped/"):
                run = parents[path] / Path(member["run"]).name
                runs[str(run)] = f"{member['label']}, seed {member['seed']}"
        if runs:
            groups.append(RunSet(path, content["title"], content["command"], runs))
    return groups
