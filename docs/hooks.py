"""What mkdocs makes beside the pages that are written (`make docs`): pictures from docs/figures,
the gallery, each paper's figures and verdicts, README's results, and notebooks. It says how far
it is."""

import json
import logging
import re
import tempfile
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
_PLAYED = ["shipped/curves", "shipped/curves-standard", "shipped/curves-no_injection"]
_EVERY = 10  # results between two lines
_KEPT: dict[str, list[tuple[Kept, list[str]]]] = {}  # by experiment, with its pictures' places


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pictures, the notebooks and the pages of files at the top."""
    _KEPT.clear()
    place = Path(tempfile.mkdtemp())
    paths = kept_files(DOCS)
    for number, path in enumerate(paths):
        if number % _EVERY == 0:
            _LOG.info("Drawing pictures of results: %d of %d done", number, len(paths))
        kept, drawn = json.loads(path.read_text(encoding="utf-8")), list[str]()
        if "experiment" not in kept:
            continue
        for file in draw(kept, place / path.stem):
            name = f"pictures/{path.stem}/{file.name}"
            files.append(File.generated(config, name, abs_src_path=str(file)))
            drawn += [name] if file.suffix == ".png" else []
        _KEPT.setdefault(kept["experiment"], []).append((kept, drawn))
    from looplab import play  # takes torch

    _LOG.info("Writing the page on which anyone draws points")
    page = play(_PLAYED[0], also=_PLAYED[1:])
    files.append(File.generated(config, "play.html", content=page.html))
    _LOG.info("Converting tour and notebooks to .ipynb, without executing them")
    for path in [DOCS / "tour.md", *(DOCS / "notebooks").glob("*.md")]:
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
        place = f"{'' if path.parent.name else 'notebooks/'}{path.stem}.ipynb"
        markdown = f"{title}\n\n[Download this page as a notebook]({place}){{ download }}\n{rest}"
    return re.sub(r"<!-- (README|experiments|gallery)(?:: (.*))? -->", _made, markdown)


def _made(comment: re.Match[str]) -> str:
    what, of = comment.groups()
    if what == "README":
        text = (HOME / "README.md").read_text(encoding="utf-8")
        (part,) = re.findall(rf"^##? {re.escape(of)}$.*?(?=^## )", text, flags=re.M | re.S)
        return str(part).replace("](docs/", "](")
    if what == "experiments":
        of_paper = [each for each in map(load, names()) if _paper(each) == PAGES.get(of, "beyond")]
        return "\n\n".join(map(_details, of_paper))
    parts = []
    foremost = [of] if of else []  # its picture is the first of all
    experiments = [load(name) for name in dict.fromkeys([*foremost, *names()])]
    for page in (*PAGES.values(), "beyond"):
        cards = "\n".join(_card(each) for each in experiments if _paper(each) == page)
        title = page.replace("_", " ").capitalize()
        parts.append(f'## {title}\n\n<div class="grid cards" markdown>\n\n{cards}\n</div>')
    return "\n\n".join(parts)


def _paper(experiment: Experiment) -> str:
    """The name of the page that it stands on."""
    return next((PAGES[each] for each in PAGES if experiment.source.startswith(each)), "beyond")


def _verdicts(experiment: Experiment) -> list[list[str]]:
    """The rows of its claims in docs/claims.md, the verdict first."""
    text = (DOCS / "claims.md").read_text(encoding="utf-8")
    rows = re.findall(rf"^\| `{experiment.name}` \| (.*) \| (.*) \|$", text, flags=re.M)
    return [[verdict, *row.split(" | ")] for row, verdict in rows]


def _card(experiment: Experiment) -> str:
    """An experiment in the gallery: its picture, its sentence, its command, its verdicts."""
    verdicts = [row[0].strip("*") for row in _verdicts(experiment)]
    pictures = [each for _, drawn in _KEPT.get(experiment.name, []) for each in drawn][:1]
    place = f"papers/{_paper(experiment)}.md#{experiment.name}"
    lines = [f"[![{experiment.title}]({each}){{ loading=lazy }}]({place})" for each in pictures]
    lines += [f"**[{experiment.name}]({place})** {experiment.title}. *{experiment.source}*"]
    lines += [f"`python run.py experiment={experiment.name}`"]
    lines += [count_text(verdicts)] if verdicts else []
    lines += [] if pictures else ["No picture is kept of it yet."]
    return "-   " + "\n\n    ".join(filter(None, lines)) + "\n"


def _details(experiment: Experiment) -> str:
    """An experiment on the page of its paper."""
    parts = [f"### {experiment.name}: {experiment.title} {{ #{experiment.name} }}"]
    parts += [f"{experiment.source}. `python run.py experiment={experiment.name}`"]
    for kept, drawn in _KEPT.get(experiment.name, []):
        images = [f"![{experiment.title}](../{each}){{ loading=lazy }}" for each in drawn]
        measured = [f"`{kept['command']}`, {kept['date']}", f"seeds: {kept['seeds'] or '–'}"]
        parts += [*images[:2], f"{', '.join(measured)}."]
        if more := images[2:]:
            parts += [
                f'??? note "Its other pictures: {len(more)}"',
                *(f"    {each}" for each in more),
            ]
    if rows := _verdicts(experiment):
        parts += [_HEAD + "\n".join(f"| {' | '.join(row)} |" for row in rows)]
    return "\n\n".join(parts)
