"""Pictures that are kept as numbers. docs/figures/NAME.json has the panels of a result; those of
README, docs and the site are drawn from these files by today's code, without training.

python -m looplab.gallery                                                # draws docs/*.png
python -m looplab.gallery keep=runs/experiments/fig03-small/result.json  # keeps a result
python -m looplab.gallery keep=runs/NAME/evaluation.json name=linear 'command=python run.py …'

A kept file's "pictures" has the panels of each docs/NAME.png, and "figures" has settings of figures
that they are drawn with; both stay when a result is kept anew.
"""

from __future__ import annotations

if __name__ == "__main__":  # before the imports, which take a while
    from looplab.conf.entry import begin

    begin()

import json
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from looplab.conf.command import described, run_command
from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import FigureSettings
from looplab.conf.setting import setting

_DOCS = Path("docs")
_ABOUT = ("experiment", "scale", "title", "source", "command")
Kept = dict[str, Any]


@dataclass(frozen=True)
class GallerySettings:
    """What is kept, and where."""

    keep: str = setting("", "result.json, evaluation.json, comparison.json or probing.json")
    name: str = setting("", "of the kept file; by default the experiment's, or the folder's")
    command: str = setting("", "that makes it; the one that made this result by default")

    def check(self) -> None:
        """Raises ConfigError for a result that is not there."""
        if self.keep and not Path(self.keep).is_file():
            raise ConfigError("keep", f"is no file: {self.keep}")


def kept_files(folder: Path) -> list[Path]:
    """The files of the kept results."""
    return sorted((folder / "figures").glob("*.json"))


def keep(settings: GallerySettings) -> Path:
    """Write what is drawn of a result, and what it is, as figures/NAME.json; returns its path."""
    from looplab.training.run_folder.files import read_json, read_record, write_bytes

    path = Path(settings.keep)
    kind = (read_json(path) or {}).get("kind", "")
    content = read_record(path, kind).content or {}
    panels = _panels(kind, content)
    if not panels:
        raise ConfigError("keep", f"has no panels, or was altered: {path}")
    name = settings.name or content.get("experiment") or path.parent.name
    target = _DOCS / "figures" / f"{name}.json"
    members = content.get("members", [])
    run = path.parents[2] / Path(members[0]["run"]).name if members else path.parent
    environment = read_json(run / "environment.json") or {}
    before = read_json(target) or {}
    kept: Kept = {"pictures": before.get("pictures", {}), "figures": before.get("figures", {})}
    for key in _ABOUT:
        if key in content:
            kept[key] = content[key]
    if settings.command:
        kept["command"] = settings.command
    kept["seeds"] = len({member["seed"] for member in members})
    kept["date"] = date.fromtimestamp(path.stat().st_mtime).isoformat()
    kept["commit"] = environment.get("git_commit")
    kept["remarks"] = content.get("remarks", [])
    kept["missing"] = len(content.get("missing", []))
    kept["panels"] = panels
    short = json.loads(json.dumps(kept), parse_float=_short)
    lines = [f"{json.dumps(key)}: {json.dumps(short[key])}" for key in short]
    target.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(target, ("{\n" + ",\n".join(lines) + "\n}\n").encode())
    return target


def _panels(kind: str, content: Kept) -> list[Any]:
    """The panels of a result as plain values; adds the title of what is no experiment."""
    if kind == "probing":
        from looplab.probing import probe, results

        content["title"] = results.title(content)
        content["panels"] = [panel.plain() for panel in probe.panels(content)]
    elif kind in ("evaluation", "comparison"):
        from looplab.evaluation.evaluation import Evaluation, OfTask
        from looplab.show import figures

        content["title"] = figures.title(OfTask.read(content))
        if kind == "evaluation":
            drawn = figures.evaluation_panels(Evaluation.read(content))
            content["panels"] = [panel.plain() for panel in drawn]
    return content.get("panels", [])


def _short(number: str) -> float:
    """A number of a JSON file with five digits."""
    value = float(f"{float(number):.5g}")
    return int(value) if value.is_integer() else value


def draw(kept: Kept, folder: Path, pictures: Mapping[str, list[str]] | None = None) -> list[Path]:
    """Draw a kept result into a folder, each picture with its CSV: all of its panels, or
    `pictures`, the names of the panels of each; returns the files."""
    from looplab.show.drawing import save_panels
    from looplab.show.panel import Panel

    panels = [Panel.read(panel) for panel in kept["panels"]]
    if pictures is not None:
        named = {panel.name: panel for panel in panels}
        panels = []
        for picture, names in pictures.items():
            panels += [replace(named[name], picture=picture) for name in names]
    remarks = list(kept["remarks"])
    if kept["missing"]:
        remarks.insert(0, f"{kept['missing']} of its trainings or measurements not finished")
    settings = FigureSettings(**kept.get("figures", {}))
    return save_panels(folder, panels, settings, kept["title"], remarks)


def draw_all(folder: Path) -> list[Path]:
    """Draw the pictures of README and docs anew; returns their files."""
    drawn = []
    for path in kept_files(folder):
        kept = json.loads(path.read_text(encoding="utf-8"))
        with tempfile.TemporaryDirectory() as place:
            for file in draw(kept, Path(place), kept["pictures"]):
                if file.suffix == ".png":
                    drawn.append(folder / file.name)
                    drawn[-1].write_bytes(file.read_bytes())
    return drawn


def _carry_out(settings: GallerySettings) -> str:
    if settings.keep:
        return str(keep(settings))
    return "\n".join(map(str, draw_all(_DOCS)))


def main(words: list[str]) -> int:
    """Run the command; returns the exit code."""
    text = f"{__doc__ or ''}\nSettings, with their defaults:\n{described(GallerySettings)}\n"
    return run_command("looplab.gallery", GallerySettings, words, lambda: text, _carry_out)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
