"""What mkdocs makes beside the pages that are written (`make docs`): pictures from docs/figures,
the gallery, each paper's figures and verdicts, README's results, and notebooks. It says how far
it is."""

import json
import logging
import re
import tempfile
from collections import defaultdict
from pathlib import Path

import jupytext
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from looplab.experiments.definition import Experiment, load, names
from looplab.gallery import Kept, draw, kept_files
from looplab.show.verdicts import count_text

DOCS = Path(__file__).parent
HOME = DOCS.parent
PAGES = {
    "arXiv 2311.12424": "looped_transformers",
    "arXiv 2606.18524": "residual_scaling",
    "arXiv 2604.21106": "iso_depth",
    "arXiv 2605.18797": "fully_looped",
}
_HEAD = "| verdict | claim | published | ours (90 %) | line | seeds |\n|---|---|---|---|---|---|\n"
_KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}
_LOG = logging.getLogger("mkdocs.hooks")
_PLAYED = {
    "play.html": ["shipped/curves", "shipped/curves-standard", "shipped/curves-no_injection"],
    "classifier.html": ["classifier"],
}
_EVERY = 10  # results between two lines
_KEPT: dict[str, list[tuple[Kept, list[str]]]] = {}  # by experiment, with its pictures' places


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pictures, the notebooks and the pages of files at the top."""
    _KEPT.clear()
    folder = Path(tempfile.mkdtemp())
    paths = kept_files(DOCS)
    for number, path in enumerate(paths):
        if number % _EVERY == 0:
            _LOG.info("Drawing pictures of results: %d of %d done", number, len(paths))
        kept = json.loads(path.read_text(encoding="utf-8"))
        drawn: list[str] = []
        if "experiment" not in kept:
            continue
        for file in draw(kept, folder / path.stem):
            name = f"pictures/{path.stem}/{file.name}"
            files.append(File.generated(config, name, abs_src_path=str(file)))
            if file.suffix == ".png":
                drawn.append(name)
        _KEPT.setdefault(kept["experiment"], []).append((kept, drawn))
    from looplab import play  # takes torch

    _LOG.info("Writing the pages on which anyone draws points")
    for name, (run, *also) in _PLAYED.items():
        files.append(File.generated(config, name, content=play(run, also).html))
    _LOG.info("Converting tour and notebooks to .ipynb, without executing them")
    sources = [DOCS / "tour.md"]
    sources += (DOCS / "notebooks").glob("*.md")
    for path in sources:
        notebook = jupytext.read(path)
        notebook.metadata["kernelspec"] = _KERNEL
        text = jupytext.writes(notebook, fmt="ipynb")
        name = f"notebooks/{path.stem}.ipynb"
        files.append(File.generated(config, name, content=text))
    for name in ("CHANGELOG.md", "CONTRIBUTING.md"):
        text = (HOME / name).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, name.lower(), content=text))
    _LOG.info("Writing pages, the API from its docstrings")
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put what is generated in the place of its comment."""
    path = Path(page.file.src_uri)
    if path.name == "tour.md" or path.parent.name == "notebooks":
        title, _, rest = markdown.partition("\n")
        link = f"{'' if path.parent.name else 'notebooks/'}{path.stem}.ipynb"
        markdown = f"{title}\n\n[Download this page as a notebook]({link}){{ download }}\n{rest}"
    return re.sub(r"<!-- (README|experiments|gallery)(?:: (.*))? -->", _made, markdown)


def _made(comment: re.Match[str]) -> str:
    kind, subject = comment.groups()
    if kind == "README":
        text = (HOME / "README.md").read_text(encoding="utf-8")
        (section,) = re.findall(rf"^##? {re.escape(subject)}$.*?(?=^## )", text, flags=re.M | re.S)
        return str(section).replace("](docs/", "](")
    if kind == "experiments":
        page = PAGES.get(subject, "beyond")
        return "\n\n".join(_details(one) for one in map(load, names()) if _paper(one) == page)
    # The gallery; the picture of its subject is the first of all.
    order = sorted(names(), key=lambda name: name != subject)
    cards = defaultdict(list)
    for experiment in map(load, order):
        cards[_paper(experiment)].append(_card(experiment))
    parts = []
    for page in (*PAGES.values(), "beyond"):
        title = page.replace("_", " ").capitalize()
        grid = "\n".join(cards[page])
        parts.append(f'## {title}\n\n<div class="grid cards" markdown>\n\n{grid}\n</div>')
    return "\n\n".join(parts)


def _paper(experiment: Experiment) -> str:
    """The name of the page that it stands on."""
    for source, page in PAGES.items():
        if experiment.source.startswith(source):
            return page
    return "beyond"


def _verdicts(experiment: Experiment) -> list[list[str]]:
    """The rows of its claims in docs/claims.md, the verdict first."""
    text = (DOCS / "claims.md").read_text(encoding="utf-8")
    rows = re.findall(rf"^\| `{experiment.name}` \| (.*) \| (.*) \|$", text, flags=re.M)
    verdicts = []
    for row, verdict in rows:
        cells = row.split(" | ")
        cells.insert(0, verdict)
        verdicts.append(cells)
    return verdicts


def _card(experiment: Experiment) -> str:
    """An experiment in the gallery: its picture, its sentence, its command, its verdicts."""
    verdicts = [row[0].strip("*") for row in _verdicts(experiment)]
    pictures: list[str] = []
    for _, drawn in _KEPT.get(experiment.name, []):
        pictures += drawn
    link = f"papers/{_paper(experiment)}.md#{experiment.name}"
    lines = []
    if pictures:
        lines.append(f"[![{experiment.title}]({pictures[0]}){{ loading=lazy }}]({link})")
    lines.append(f"**[{experiment.name}]({link})** {experiment.title}. *{experiment.source}*")
    lines.append(f"`python run.py experiment={experiment.name}`")
    if verdicts:
        lines.append(count_text(verdicts))
    if not pictures:
        lines.append("No picture is kept of it yet.")
    return "-   " + "\n\n    ".join(filter(None, lines)) + "\n"


def _details(experiment: Experiment) -> str:
    """An experiment on the page of its paper."""
    parts = [f"### {experiment.name}: {experiment.title} {{ #{experiment.name} }}"]
    parts.append(f"{experiment.source}. `python run.py experiment={experiment.name}`")
    for kept, drawn in _KEPT.get(experiment.name, []):
        images = [f"![{experiment.title}](../{file}){{ loading=lazy }}" for file in drawn]
        seeds = kept["seeds"] or "–"
        parts += images[:2]
        parts.append(f"`{kept['command']}`, {kept['date']}, seeds: {seeds}.")
        others = images[2:]
        if others:
            parts.append(f'??? note "Its other pictures: {len(others)}"')
            parts += [f"    {image}" for image in others]
    rows = _verdicts(experiment)
    if rows:
        parts.append(_HEAD + "\n".join(f"| {' | '.join(row)} |" for row in rows))
    return "\n\n".join(parts)
