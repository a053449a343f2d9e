"""What mkdocs makes beside the pages that are written (`make docs`): pictures from docs/figures,
the gallery, each paper's figures and verdicts, README's results, how to cite, and notebooks."""

import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jupytext
import yaml
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from looplab.experiments.claims import verdict_cells
from looplab.experiments.definition import Experiment, load, names
from looplab.experiments.engine import count_text
from looplab.gallery import Kept, draw, kept_files

DOCS = Path(__file__).parent
HOME = DOCS.parent
PAGES = {
    "arXiv 2311.12424": "looped_transformers",
    "arXiv 2606.18524": "residual_scaling",
    "arXiv 2604.21106": "iso_depth",
    "arXiv 2605.18797": "fully_looped",
}
_HEAD = "| claim | published | ours (90 %) | line | seeds | verdict |\n|---|---|---|---|---|---|\n"
_KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}
_KEPT: dict[str, list[tuple[Kept, list[str]]]] = {}  # by experiment, with its pictures' places


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pictures, the notebooks and the pages of files at the top."""
    _KEPT.clear()
    place = Path(tempfile.mkdtemp())
    for path in kept_files(DOCS):
        kept, drawn = json.loads(path.read_text(encoding="utf-8")), list[str]()
        if "experiment" not in kept:
            continue
        for file in draw(kept, place / path.stem):
            name = f"pictures/{path.stem}/{file.name}"
            files.append(File.generated(config, name, abs_src_path=str(file)))
            drawn += [name] if file.suffix == ".png" else []
        _KEPT.setdefault(kept["experiment"], []).append((kept, drawn))
    for path in [DOCS / "tour.md", *(DOCS / "notebooks").glob("*.md")]:
        notebook = jupytext.read(path)
        notebook.metadata["kernelspec"] = _KERNEL
        text = jupytext.writes(notebook, fmt="ipynb")
        name = f"notebooks/{path.stem}.ipynb"
        files.append(File.generated(config, name, content=text))
    for name in ("CHANGELOG.md", "CONTRIBUTING.md"):
        text = (HOME / name).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, name.lower(), content=text))
    files.append(File.generated(config, "cite.md", content=_cite()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put what is generated in the place of its comment."""
    path = Path(page.file.src_uri)
    if path.name == "tour.md" or path.parent.name == "notebooks":
        title, _, rest = markdown.partition("\n")
        place = f"{'' if path.parent.name else 'notebooks/'}{path.stem}.ipynb"
        markdown = f"{title}\n\n[Download this page as a notebook]({place}){{ download }}\n{rest}"
    return re.sub(r"<!-- (README|experiments|gallery)(?:: (.*))? -->", _made, markdown)


def _made(comment: re.Match[str]) -> str:
    what, of = comment.groups()
    if what == "README":
        text = (HOME / "README.md").read_text(encoding="utf-8")
        (part,) = re.findall(rf"^## {of}$.*?(?=^## )", text, flags=re.M | re.S)
        part = re.sub(r"^(\d)\. \*\*(.*?)\*\*", r"### \1. \2\n\n", part, flags=re.M)
        return re.sub(r"^   ", "", part, flags=re.M).replace("](docs/", "](")
    if what == "experiments":
        of_paper = [each for each in _experiments() if _paper(each) == PAGES.get(of, "beyond")]
        return "\n\n".join(map(_details, of_paper))
    parts = []
    for page in (*PAGES.values(), "beyond"):
        cards = "\n".join(_card(each) for each in _experiments() if _paper(each) == page)
        title = page.replace("_", " ").capitalize()
        parts.append(f'## {title}\n\n<div class="grid cards" markdown>\n\n{cards}\n</div>')
    return "\n\n".join(parts)


def _experiments() -> Iterator[Experiment]:
    """All experiments, as they are counted: fig2 before fig10."""
    in_order = sorted(names(), key=lambda name: re.sub(r"\d+", lambda n: n[0].zfill(2), name))
    return map(load, in_order)


def _paper(experiment: Experiment) -> str:
    """The name of the page that it stands on."""
    return next((PAGES[each] for each in PAGES if experiment.source.startswith(each)), "beyond")


def _verdicts(experiment: Experiment) -> list[list[str]]:
    """The rows of its claims in docs/claims.md; those of its kept results where that has none."""
    text = (DOCS / "claims.md").read_text(encoding="utf-8")
    rows = re.findall(rf"^\| `{experiment.name}` \| (.*) \|$", text, flags=re.M)
    kept = [each for result, _ in _KEPT.get(experiment.name, []) for each in result["verdicts"]]
    return [row.split(" | ") for row in rows] or [
        [each["sentence"], *verdict_cells(each)] for each in kept
    ]


def _card(experiment: Experiment) -> str:
    """An experiment in the gallery: its picture, its sentence, its command, its verdicts."""
    verdicts: Any = [{"verdict": row[-1].strip("*")} for row in _verdicts(experiment)]
    pictures = [each for _, drawn in _KEPT.get(experiment.name, []) for each in drawn][:1]
    place = f"papers/{_paper(experiment)}.md#{experiment.name}"
    lines = [f"[![{experiment.title}]({each}){{ loading=lazy }}]({place})" for each in pictures]
    lines += [f"**[{experiment.name}]({place})** {experiment.title}. *{experiment.source}*"]
    lines += [f"`python run.py experiment={experiment.name}`"]
    lines += [count_text(verdicts)] if verdicts else []
    return "-   " + "\n\n    ".join(filter(None, lines)) + "\n"


def _details(experiment: Experiment) -> str:
    """An experiment on the page of its paper."""
    parts = [f"### {experiment.name}: {experiment.title} {{ #{experiment.name} }}"]
    parts += [f"{experiment.source}. `python run.py experiment={experiment.name}`"]
    for kept, drawn in _KEPT.get(experiment.name, []):
        seeds = f", {kept['seeds']} seed{'s' * (kept['seeds'] > 1)}" if kept["seeds"] else ""
        about = f"Measured by `{kept['command']}` on {kept['date']}{seeds}"
        about += f", commit {kept['commit']}" * bool(kept["commit"])
        parts += [f"![{experiment.title}](../{each}){{ loading=lazy }}" for each in drawn[:2]]
        parts += [f"{about}."]
        if more := drawn[2:]:
            images = [f"    ![{each}](../{each}){{ loading=lazy }}" for each in more]
            parts += [f'??? note "Its other pictures: {len(more)}"', *images]
    if rows := _verdicts(experiment):
        parts += [_HEAD + "\n".join(f"| {' | '.join(row)} |" for row in rows)]
    return "\n\n".join(parts)


def _cite() -> str:
    """The page on how to cite, from CITATION.cff."""
    cited: dict[str, Any] = yaml.safe_load((HOME / "CITATION.cff").read_text(encoding="utf-8"))
    about = {"author": "{The Looplab maintainers}", "title": f"{{{cited['title']}}}"}
    entries = [_bibtex("software", "looplab", about | {"version": cited["version"]})]
    for paper in cited["references"]:
        given = paper["authors"]
        authors = [
            each.get("name") or f"{each['family-names']}, {each['given-names']}" for each in given
        ]
        number = paper["url"].rpartition("/")[2]
        fields = {"author": " and ".join(authors), "title": f"{{{paper['title']}}}"}
        fields |= {"year": paper["year"], "eprint": number, "archivePrefix": "arXiv"}
        entries.append(_bibtex("article", f"arxiv{number}", fields))
    blocks = "\n\n".join(f"```bibtex\n{entry}\n```" for entry in entries)
    return f"# How to cite\n\n{cited['message']} Looplab first, then the papers:\n\n{blocks}\n"


def _bibtex(kind: str, key: str, fields: dict[str, Any]) -> str:
    lines = "\n".join(f"  {name} = {{{value}}}," for name, value in fields.items())
    return f"@{kind}{{{key},\n{lines}\n}}"
